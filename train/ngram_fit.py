"""Fits the n-gram path of a classifier, and weighs it against the trunk.

The trunk learns by gradient steps, and soon knows its training texts by heart: a path that learned beside it would have
nothing left to explain. So the path is fitted alone, to the labels, as the logistic regression that it is; then two
numbers, how much the trunk's logits and the path's count, are chosen on validation. Where the path adds nothing there,
its number comes out near zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.modeling.loss import classification_loss
from greffe.modeling.ngrams import NgramPath
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from .linear_fit import fit_linear, minimise

# Inverse strengths of the regularisation, from strong to weak; validation chooses.
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
# N-grams of fewer texts are left out: most are, what they say is chance, and they would share buckets with the others.
_FEWEST = 2
_TEXTS = 64  # whose n-grams are counted at once


@dataclass(frozen=True)
class Bags:
    """The n-grams of some texts, one text after the other."""

    starts: Tensor  # (texts): where each begins
    buckets: Tensor  # (n-grams of all texts)
    counts: Tensor  # how often each stands in its text
    values: Tensor  # its TF-IDF, with the path's rarity

    def logits(self, weight: Tensor) -> Tensor:
        """What a path with this weight, (buckets, C), says of the texts, (texts, C)."""
        return F.embedding_bag(self.buckets, weight, self.starts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True)
class Mixture:
    """What was chosen on validation: the strength of the path, and how much the logits of each count."""

    strength: float
    trunk: float
    path: float


def graft_ngrams(
    classifier: GreffeForSequenceClassification,
    order: int,
    spelling: Sequence[tuple[bytes, bool]],  # of each token, as `spell_tokens` has it
    train: Sequence[dict[str, Any]],
    validation: Sequence[dict[str, Any]],
    trunk_logits: Tensor,  # of the validation rows, (rows, C)
) -> Mixture:
    """Give a trained classifier a path that is fitted to the training rows, both scaled to what is best together."""
    classifier.config.ngram_order = order
    problem = str(classifier.config.problem_type)
    path = NgramPath(classifier.config)
    path.learn_spelling(spelling)
    path.rarity.copy_(find_rarity(fill_bags(path, train), path.buckets))
    bags, held_out = fill_bags(path, train), fill_bags(path, validation)
    targets, held_out_targets = (torch.tensor([row["labels"] for row in rows]) for rows in (train, validation))
    best: tuple[float, Mixture, Tensor, Tensor] | None = None
    for strength, weight, bias in fit_weights(bags, path.weight.shape, targets, problem):
        loss, scales = weigh([trunk_logits.float(), held_out.logits(weight) + bias], held_out_targets, problem)
        if best is None or loss < best[0]:  # of equals the strongest, which promises least
            best = loss, Mixture(strength, *scales), weight, bias
    assert best is not None
    _, mixture, weight, bias = best
    with torch.no_grad():
        path.weight.copy_(mixture.path * weight)
        classifier.score.weight *= mixture.trunk
        classifier.score.bias.copy_(mixture.trunk * classifier.score.bias + mixture.path * bias)
    classifier.ngrams = path.to(classifier.device)
    return mixture


@torch.no_grad()
def fill_bags(path: NgramPath, rows: Sequence[dict[str, Any]]) -> Bags:
    """Texts of similar lengths are counted together, and put back into their order."""
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    found: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
    for start in range(0, len(order), _TEXTS):
        chunk = order[start : start + _TEXTS]
        ids = [torch.as_tensor(rows[row]["input_ids"]) for row in chunk]
        real = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
        buckets, counts = path.count(pad_sequence(ids, batch_first=True), real)
        values = path.values(buckets, counts)
        for place, row in enumerate(chunk):
            there = counts[place] > 0
            found[row] = buckets[place][there], counts[place][there], values[place][there]
    lengths = torch.tensor([len(found[row][0]) for row in range(len(rows))])
    columns = (torch.cat([found[row][column] for row in range(len(rows))]) for column in range(3))
    return Bags(lengths.cumsum(0) - lengths, *columns)


def find_rarity(bags: Bags, buckets: int) -> Tensor:
    """The inverse document frequency of each bucket, smoothed as scikit-learn does; 0 for those of too few texts."""
    texts = torch.zeros(buckets).index_add_(0, bags.buckets, 1 / bags.counts.float()).round()  # each text counts once
    return torch.where(texts >= _FEWEST, torch.log((1 + len(bags.starts)) / (1 + texts)) + 1, 0.0)


def fit_weights(
    bags: Bags, shape: Sequence[int], targets: Tensor, problem: str
) -> Iterator[tuple[float, Tensor, Tensor]]:
    """For each strength the weights (buckets, C) and biases (C) of the regularised regression."""
    seen, columns = bags.buckets.unique(return_inverse=True)
    bags = replace(bags, buckets=columns)
    for strength, weight, bias in fit_linear(bags.logits, (len(seen), shape[1]), targets, problem, STRENGTHS):
        whole = torch.zeros(*shape)
        whole[seen] = weight
        yield strength, whole, bias


def weigh(parts: Sequence[Tensor], targets: Tensor, problem: str) -> tuple[float, list[float]]:
    """How much the logits of each part count in the sum that explains the targets best, none less than nothing."""
    scales = torch.ones(len(parts), requires_grad=True)

    def objective() -> Tensor:
        total = sum(scale * part for scale, part in zip(scales.relu(), parts, strict=True))
        return classification_loss(torch.as_tensor(total), targets, problem)

    minimise(objective, [scales])
    return objective().item(), scales.detach().relu().tolist()


__all__ = ["STRENGTHS", "Mixture", "graft_ngrams"]
