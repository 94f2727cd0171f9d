"""What a language model learns from a row: the next token, masked tokens, or both; and how well it does.

- causal: each position predicts the next token, under the square mask.
- masked: some tokens are hidden, both directions are visible, each hidden position predicts its own token.
- hybrid: some rows are causal, the others are masked. There the position *before* a hidden token predicts it, as in
  a causal row, so that one head serves both (GPT-BERT, Charpentier and Samuel, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from greffe.modeling.loss import linear_cross_entropy
from torch import Tensor, nn

from .machine import BF16_LENGTHS

IGNORED = -100
# Of the tokens to predict, BERT's shares: hidden by <mask>, replaced by a random token, left as they are.
_HIDDEN, _RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class RowCollator:
    """Rows into a batch for `Trainer`: packed ones, or single documents of any length, padded on the right."""

    objective: str
    mask_probability: float
    masked_share: float
    cross_document_attention: bool
    bos_token_id: int
    mask_token_id: int  # -1 where the objective does not mask
    special_ids: tuple[int, ...]
    vocab_size: int
    seed: int
    pad_token_id: int | None = None  # None where rows are packed, and all of one length

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        ids = [row["input_ids"].astype(np.int64) for row in rows]
        # Where a document starts is not for guessing.
        labels = [np.where(row == self.bos_token_id, IGNORED, row) for row in ids]
        batch: dict[str, Tensor] = {}
        if self.pad_token_id is not None:
            batch["attention_mask"] = _pad([np.ones_like(row) for row in ids], 0)
        elif not self.cross_document_attention:
            batch["position_ids"] = torch.from_numpy(document_positions(np.stack(ids), self.bos_token_id))
        masked = np.zeros(len(rows), dtype=bool)
        if self.objective != "causal":
            for index, row in enumerate(rows):
                # A generator for each row and epoch: what it draws depends on nothing else, so that a resumed run
                # and one of several processes draw the same.
                draw = np.random.default_rng([self.seed, *row["draw"]])
                masked[index] = self.objective == "masked" or draw.random() < self.masked_share
                if masked[index]:
                    ids[index], labels[index] = self.mask(ids[index], draw)
        if self.objective == "hybrid":
            batch["masked_rows"] = torch.from_numpy(masked)
        return {"input_ids": _pad(ids, self.pad_token_id or 0), "labels": _pad(labels, IGNORED), **batch}  # (B, T)

    def mask(self, ids: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        chosen = (draw.random(ids.shape) < self.mask_probability) & ~np.isin(ids, self.special_ids)
        fate = draw.random(ids.shape)
        words = draw.integers(0, self.vocab_size, ids.shape)
        replaced = np.where(fate < _HIDDEN, self.mask_token_id, np.where(fate < _HIDDEN + _RANDOM, words, ids))
        return np.where(chosen, replaced, ids), np.where(chosen, ids, IGNORED)


def document_positions(ids: np.ndarray, bos_token_id: int) -> np.ndarray:
    """Positions that start again at 0 with each document of a row, which keeps documents apart; (B, T)."""
    index = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    starts = np.where(ids == bos_token_id, index, 0)
    return index - np.maximum.accumulate(starts, axis=1)


def hybrid_loss(model: nn.Module, batch: dict[str, Tensor], num_items_in_batch: Any) -> Tensor:
    """The causal rows under the square mask and the masked rows without it, as one loss over all predicted tokens."""
    batch = dict(batch)
    masked = batch.pop("masked_rows")
    if num_items_in_batch is None:
        num_items_in_batch = (batch["labels"][:, 1:] != IGNORED).sum()
    losses = [
        model(**_select(batch, rows), is_causal=is_causal, num_items_in_batch=num_items_in_batch)["loss"]
        for rows, is_causal in ((~masked, True), (masked, False))
        if rows.any()
    ]
    return torch.stack(losses).sum()


def _select(batch: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    return {name: value[rows] for name, value in batch.items()}


@torch.no_grad()
def sum_nats(
    model: Any,
    rows: Iterable[np.ndarray],
    batch_size: int,
    pad_token_id: int,
    masks: RowCollator | None = None,
    share: tuple[int, int] = (0, 1),
) -> tuple[float, int]:
    """The negative log-likelihood of the rows, and the number of predicted tokens: causal, or of masked tokens.

    Sums, not means of means: the result does not depend on the size of a batch. `share` is the place of this process
    among so many, which take their rows in turn. Masks depend on a row's place among all, whoever takes it.
    """
    nats, tokens = 0.0, 0
    taken = list(enumerate(rows))[share[0] :: share[1]]
    taken.sort(key=lambda row: len(row[1]))  # rows of similar lengths share a batch: little of it is padding
    for start in range(0, len(taken), batch_size):
        numbers, batch = zip(*taken[start : start + batch_size], strict=True)
        targets = batch
        if masks is not None:
            draws = [np.random.default_rng([masks.seed, number]) for number in numbers]
            batch, targets = zip(*map(masks.mask, batch, draws), strict=True)
        ids, labels = _pad(batch, pad_token_id, model.device), _pad(targets, IGNORED, model.device)
        real = _pad([np.ones_like(row) for row in batch], 0, model.device)
        hidden = model.model(
            input_ids=ids, attention_mask=real, use_cache=False, is_causal=masks is None
        ).last_hidden_state
        if masks is None or model.config.shifted_masks:  # predicted from the position before
            hidden, labels = hidden[:, :-1], labels[:, 1:]
        head, labels = model.lm_head, labels.flatten()
        nats += linear_cross_entropy(hidden.flatten(0, 1), head.weight, head.bias, labels, num_items_in_batch=1).item()
        tokens += int((labels != IGNORED).sum())
    return nats, tokens


def _pad(rows: Sequence[np.ndarray], value: int, device: torch.device | str | None = None) -> Tensor:
    """Rows as one tensor; for the evaluation, on its device, of few lengths."""
    padded = nn.utils.rnn.pad_sequence(
        [torch.from_numpy(row.astype(np.int64)) for row in rows], batch_first=True, padding_value=value
    )
    if device is None:
        return padded
    return nn.functional.pad(padded, (0, -padded.shape[1] % BF16_LENGTHS), value=value).to(device)


def language_metrics(nats: float, tokens: int, text_bytes: int) -> dict[str, float]:
    """Loss and perplexity a token, and bits a byte of text, which models with different tokenizers share."""
    loss = nats / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "bits_per_byte": nats / math.log(2) / text_bytes}
