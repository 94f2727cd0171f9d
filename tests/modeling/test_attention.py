"""Attention as matrix products, which bf16 on a processor takes, against torch's fused one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from greffe.modeling import GreffeForCausalLM, attention
from greffe.modeling.attention import is_faster_as_products, product_attention_forward
from tiny_models import random_ids, tiny_config
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 7, 4


def draw(length: int = LENGTH) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(BATCH, HEADS, size, WIDTH, requires_grad=True) for size in (length, LENGTH, LENGTH)]


def masks() -> dict[str, dict[str, Any]]:
    torch.manual_seed(1)
    some = torch.rand(BATCH, 1, LENGTH, LENGTH) > 0.4
    some[..., 0] = True
    return {
        "square": {"attention_mask": None},
        "both directions": {"attention_mask": None, "is_causal": False},
        "booleans": {"attention_mask": some},
        "numbers": {"attention_mask": torch.randn(BATCH, 1, LENGTH, LENGTH)},
    }


@pytest.mark.parametrize("mask", masks())
def test_equals_the_fused_one(mask: str) -> None:
    module: Any = SimpleNamespace(is_causal=True, training=True)
    results = []
    for attend in (product_attention_forward, sdpa_attention_forward):
        inputs = draw()
        mixed, weights = attend(module, *inputs, scaling=0.3, **masks()[mask])
        assert weights is None
        mixed.square().sum().backward()
        results.append([mixed, *(tensor.grad for tensor in inputs)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_a_new_token_sees_all_that_is_cached() -> None:
    module: Any = SimpleNamespace(is_causal=True, training=False)
    ours, _ = product_attention_forward(module, *draw(1), attention_mask=None, scaling=0.3)
    theirs, _ = sdpa_attention_forward(module, *draw(1), attention_mask=None, scaling=0.3)
    torch.testing.assert_close(ours, theirs)


def test_a_row_that_sees_nothing_is_a_number() -> None:
    module: Any = SimpleNamespace(is_causal=True, training=False)
    nothing = torch.zeros(BATCH, 1, LENGTH, LENGTH, dtype=torch.bool)
    mixed, _ = product_attention_forward(module, *draw(), attention_mask=nothing, scaling=0.3)
    assert mixed.isfinite().all()


def test_dropout_is_for_training_alone() -> None:
    outputs = []
    for training in (False, True):
        module: Any = SimpleNamespace(is_causal=True, training=training)
        outputs.append(product_attention_forward(module, *draw(), attention_mask=None, scaling=0.3, dropout=0.5)[0])
    assert not torch.allclose(*outputs)


def test_only_bf16_that_fits_in_memory_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, _ = draw()
    assert not is_faster_as_products(query, key)
    assert is_faster_as_products(query.bfloat16(), key.bfloat16())
    monkeypatch.setattr(attention, "_MOST_SCORES", BATCH * HEADS * LENGTH * LENGTH - 1)
    assert not is_faster_as_products(query.bfloat16(), key.bfloat16())


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("kind", ["lab", "modern"])
def test_a_model_under_autocast_is_near_the_one_in_fp32(
    kind: str, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts padded on any side, packed or alone; the products are really what runs."""
    model, ids = GreffeForCausalLM(tiny_config(kind)).eval(), random_ids(2, 9)
    real = torch.ones_like(ids)
    if padding != "none":
        real[0, slice(6, None) if padding == "right" else slice(3)] = 0
    inputs = {"input_ids": ids, "attention_mask": real}
    called = []

    def watched(*positional: Any, **keywords: Any) -> Any:
        called.append(1)
        return product_attention_forward(*positional, **keywords)

    monkeypatch.setattr("greffe.modeling.modeling_greffe.product_attention_forward", watched)
    with torch.no_grad():
        exact = model(**inputs).logits
        assert not called
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model(**inputs).logits
    assert len(called) == model.config.num_hidden_layers
    torch.testing.assert_close(rounded.float()[real.bool()], exact[real.bool()], atol=0.05, rtol=0.05)


def test_packed_documents_stay_apart_under_autocast() -> None:
    model = GreffeForCausalLM(tiny_config("modern")).eval()
    ids, positions = random_ids(1, 8), torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])
    changed = ids.clone()
    changed[0, :4] = (changed[0, :4] + 1) % 97
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        one, other = (model(input_ids=rows, position_ids=positions).logits for rows in (ids, changed))
    assert torch.equal(one[:, 4:], other[:, 4:])
    assert not torch.equal(one[:, :4], other[:, :4])
