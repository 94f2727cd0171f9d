"""A start for the head: the linear classifier that is best before the trunk learns anything.

A head that is drawn at random first sends noise into the trunk, which forgets a part of what it knew while the head
learns. One that already reads the trunk as well as it can be read asks only for what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.modeling.loss import classification_loss
from torch import Tensor

from .frozen_trunk import POOLED, read_texts
from .linear_fit import fit_linear

# Inverse strengths of the regularisation, from strong to weak; validation chooses.
_STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# More texts say little more of a linear classifier, and each takes memory.
_MOST_TEXTS = 20_000


def start_head(
    classifier: GreffeForSequenceClassification,
    train: Sequence[dict[str, Any]],
    validation: Sequence[dict[str, Any]],
    collate: Callable[[list[dict[str, Any]]], dict[str, Tensor]],
    batch_size: int,
    show_progress: bool,
) -> float:
    """Put the best linear classifier of what the trunk says into the head; returns its loss on validation."""
    some = train[:: -(-len(train) // _MOST_TEXTS)]
    for rows in (some, validation):
        read_texts(classifier, rows, collate, batch_size, show_progress)
    (features, targets), (held_out, held_out_targets) = gather(some), gather(validation)
    mean, spread = features.mean(0), features.std(0, correction=0).clamp(min=1e-6)
    scaled, held_out_scaled = (features - mean) / spread, (held_out - mean) / spread
    problem = str(classifier.config.problem_type)
    best: tuple[float, Tensor, Tensor] | None = None
    shape = features.shape[1], classifier.score.out_features
    for _, weight, bias in fit_linear(lambda weight: scaled @ weight, shape, targets, problem, _STRENGTHS):
        loss = classification_loss(held_out_scaled @ weight + bias, held_out_targets, problem).item()
        if best is None or loss < best[0]:
            best = loss, weight, bias
    assert best is not None
    loss, weight, bias = best
    weight = weight / spread[:, None]
    with torch.no_grad():
        classifier.score.weight.copy_(weight.T)
        classifier.score.bias.copy_(bias - mean @ weight)
    return loss


def gather(rows: Sequence[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """What the trunk says of the texts, (texts, features), and their labels."""
    return torch.stack([row[POOLED].float() for row in rows]), torch.tensor([row["labels"] for row in rows])


__all__ = ["start_head"]
