"""Logits of a few texts, computed in another order of factors, against the plain head."""

import pytest
import torch
from greffe.modeling import vocabulary_head
from torch import nn


@pytest.mark.parametrize("batch", [1, 2, 16])
def test_equals_the_head(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LARGE_FOR_ONE", "_LARGE_FOR_MORE"):
        monkeypatch.setattr(vocabulary_head, name, 0)
    torch.manual_seed(0)
    head, states = nn.Linear(8, 101), torch.randn(batch, 1, 8)
    calls: list[int] = []
    head.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        logits = vocabulary_head._project(head, states)
        assert not calls, "the plain head was used"
        torch.testing.assert_close(logits, head(states))
    assert logits.shape == (batch, 1, 101)
    assert logits.view(-1, 101).shape == (batch, 101)


def test_everything_else_takes_the_plain_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head, calls = nn.Linear(8, 101), []
    head.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        vocabulary_head._project(head, torch.randn(4, 1, 8))  # small
        for name in ("_LARGE_FOR_ONE", "_LARGE_FOR_MORE"):
            monkeypatch.setattr(vocabulary_head, name, 0)
        vocabulary_head._project(head, torch.randn(65, 1, 8))  # many texts
        vocabulary_head._project(head, torch.randn(4, 2, 8))  # several tokens
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert vocabulary_head._project(head, torch.randn(4, 1, 8)).dtype == torch.bfloat16
    vocabulary_head._project(head, torch.randn(4, 1, 8)).sum().backward()
    assert len(calls) == 5
    assert head.weight.grad is not None
