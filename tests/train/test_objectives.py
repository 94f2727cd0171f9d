"""What is hidden, what is predicted from where, and that draws depend on seed, epoch and row alone."""

from typing import Any

import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM
from greffe.train.objectives import IGNORED, RowCollator, document_positions, hybrid_loss, language_metrics, sum_nats
from tiny_models import tiny_config
from torch.nn import functional as F

BOS, PAD, EOS, MASK = 0, 1, 2, 3


def collator(objective: str, **changes: Any) -> RowCollator:
    values: dict[str, Any] = {
        "objective": objective, "mask_probability": 0.3, "masked_share": 0.5, "cross_document_attention": False,
        "bos_token_id": BOS, "mask_token_id": MASK, "special_ids": (BOS, PAD, EOS, MASK), "vocab_size": 97, "seed": 0,
    }  # fmt: skip
    return RowCollator(**{**values, **changes})


def make_rows(count: int, length: int = 40, epoch: int = 0) -> list[dict[str, Any]]:
    draw = np.random.default_rng(7)
    rows = draw.integers(4, 97, (count, length))
    rows[:, 0], rows[:, 17], rows[:, 18] = BOS, EOS, BOS
    return [{"input_ids": row, "draw": (epoch, index)} for index, row in enumerate(rows)]


def test_positions_start_again_with_each_document() -> None:
    ids = np.array([[5, 6, BOS, 7, 8, BOS, 9], [BOS, 5, 5, 5, 5, 5, BOS]])
    assert document_positions(ids, BOS).tolist() == [[0, 1, 0, 1, 2, 0, 1], [0, 1, 2, 3, 4, 5, 0]]


def test_causal_rows_predict_everything_but_beginnings() -> None:
    rows = make_rows(3)
    batch = collator("causal")(rows)
    ids = torch.from_numpy(np.stack([row["input_ids"] for row in rows]))
    assert torch.equal(batch["input_ids"], ids)
    assert torch.equal(batch["labels"], ids.masked_fill(ids == BOS, IGNORED))
    assert "position_ids" not in collator("causal", cross_document_attention=True)(rows)


def test_masked_rows_hide_what_they_predict() -> None:
    rows = make_rows(200)
    original = torch.from_numpy(np.stack([row["input_ids"] for row in rows]))
    batch = collator("masked")(rows)
    predicted = batch["labels"] != IGNORED
    assert torch.equal(batch["labels"][predicted], original[predicted])
    assert torch.equal(batch["input_ids"][~predicted], original[~predicted])
    assert not (predicted & (original < 4)).any(), "control tokens are never hidden"
    ordinary = (original >= 4).sum()
    assert predicted.sum() / ordinary == pytest.approx(0.3, abs=0.02)
    assert (batch["input_ids"][predicted] == MASK).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (batch["input_ids"][predicted] == original[predicted]).float().mean() == pytest.approx(0.11, abs=0.03)


@pytest.mark.parametrize("objective", ["masked", "hybrid"])
def test_draws_depend_on_seed_epoch_and_row_alone(objective: str) -> None:
    rows = make_rows(8)
    together = collator(objective)(rows)
    np.random.seed(1)
    torch.manual_seed(1)
    parts = [collator(objective)(rows[start : start + 2]) for start in range(0, 8, 2)]
    for name in together:
        assert torch.equal(together[name], torch.cat([part[name] for part in parts]))
    assert not torch.equal(collator(objective)(make_rows(8, epoch=1))["input_ids"], together["input_ids"])
    assert not torch.equal(collator(objective, seed=1)(rows)["input_ids"], together["input_ids"])


def test_hybrid_loss_is_that_of_the_two_kinds_of_rows() -> None:
    model = GreffeForCausalLM(tiny_config()).train()
    batch = collator("hybrid")(make_rows(6))
    masked = batch["masked_rows"]
    assert 0 < masked.sum() < 6
    nats = items = 0
    for row in range(6):
        inputs = {name: batch[name][row : row + 1] for name in ("input_ids", "position_ids")}
        hidden = model.model(**inputs, is_causal=not masked[row]).last_hidden_state
        logits, labels = model.lm_head(hidden)[0, :-1], batch["labels"][row, 1:]
        nats = nats + F.cross_entropy(logits, labels, reduction="sum")
        items += (labels != IGNORED).sum()
    torch.testing.assert_close(hybrid_loss(model, batch, None), nats / items)
    torch.testing.assert_close(hybrid_loss(model, batch, 100), nats / 100)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_sums_do_not_depend_on_batches(batch_size: int) -> None:
    model = GreffeForCausalLM(tiny_config()).eval()
    rows = [np.arange(4, 4 + length) for length in (2, 9, 5, 30, 7)]
    nats, tokens = sum_nats(model, rows, batch_size, PAD)
    expected = sum(
        model(torch.tensor([row]), labels=torch.tensor([row])).loss.item() * (len(row) - 1) for row in map(list, rows)
    )
    assert tokens == sum(len(row) - 1 for row in rows)
    assert nats == pytest.approx(expected, rel=1e-5)


def test_masked_sums_see_both_directions() -> None:
    rows = [row["input_ids"] for row in make_rows(5)]
    model = GreffeForMaskedLM(tiny_config()).eval()
    nats, tokens = sum_nats(model, rows, 2, PAD, collator("masked"))
    assert (nats, tokens) == pytest.approx(sum_nats(model, rows, 2, PAD, collator("masked")))
    expected = items = 0
    for index, row in enumerate(rows):  # all of one length: the order is kept
        ids, labels = collator("masked").mask(row, np.random.default_rng([0, index]))
        batch = {"input_ids": torch.tensor(ids)[None], "labels": torch.tensor(labels)[None]}
        count = (batch["labels"] != IGNORED).sum().item()
        expected, items = expected + model(**batch).loss.item() * count, items + count
    assert tokens == items
    assert nats == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("objective", ["causal", "masked", "hybrid"])
def test_sums_do_not_depend_on_processes(objective: str) -> None:
    """Each takes every so many rows, and its place among its own is not that among all."""
    model = GreffeForCausalLM(tiny_config(shifted_masks=objective == "hybrid")).eval()
    rows = [np.arange(4, 4 + length) for length in (12, 30, 9, 25, 18, 40, 7)]
    masks = None if objective == "causal" else collator(objective)
    whole = sum_nats(model, rows, 2, PAD, masks)
    shares = [sum_nats(model, rows, 2, PAD, masks, share=(rank, 3)) for rank in range(3)]
    assert sum(tokens for _, tokens in shares) == whole[1]
    assert sum(nats for nats, _ in shares) == pytest.approx(whole[0], rel=1e-5)


@pytest.mark.parametrize("shifted", [False, True])
def test_the_model_says_where_masked_tokens_are_predicted(shifted: bool) -> None:
    """A hybrid model that goes on with masked rows alone is measured as it learns; its rows start inside documents."""
    model = GreffeForMaskedLM(tiny_config(shifted_masks=shifted)).eval()
    rows = [row["input_ids"][5:] for row in make_rows(6)]
    masks = collator("masked", mask_probability=0.6)
    nats, tokens = sum_nats(model, rows, 3, PAD, masks)
    expected = items = 0
    for index, row in enumerate(rows):
        ids, labels = masks.mask(row, np.random.default_rng([0, index]))
        batch = {"input_ids": torch.tensor(ids)[None], "labels": torch.tensor(labels)[None]}
        count = (batch["labels"][:, int(shifted) :] != IGNORED).sum().item()
        expected, items = expected + model(**batch).loss.item() * count, items + count
    assert tokens == items
    assert nats == pytest.approx(expected, rel=1e-5)


def test_language_metrics() -> None:
    metrics = language_metrics(nats=np.log(2) * 80, tokens=20, text_bytes=40)
    assert metrics == pytest.approx({"loss": np.log(16), "perplexity": 16, "bits_per_byte": 2})
