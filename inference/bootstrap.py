"""How far a metric could be from what another sample of texts would give: percentile intervals by the bootstrap.

A resample of the rows is held as how often it has each row. Every metric here is a function of weighted sums over the
rows, so that many resamples are one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from greffe.train.labelled_data import Task

# Counts that are in memory at once, in resamples times rows.
_AT_ONCE = 5_000_000
# (S, N) counts of each row in each resample -> the metrics of each resample, (S) each.
Metrics = Callable[[np.ndarray], dict[str, np.ndarray]]


def bootstrap_intervals(
    metrics: Metrics, rows: int, *, samples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """The interval of each metric that holds `confidence` of its resampled values; the same for the same seed."""
    if samples < 1:
        raise ValueError(f"expected at least 1 resample, found {samples}")
    if not 0 < confidence < 1:
        raise ValueError(f"expected a confidence between 0 and 1, found {confidence}")
    draw = np.random.default_rng(seed)
    parts = []
    for start in range(0, samples, size := max(1, _AT_ONCE // rows)):
        number = min(size, samples - start)
        drawn = draw.integers(0, rows, (number, rows)) + np.arange(number)[:, None] * rows
        counts = np.bincount(drawn.ravel(), minlength=number * rows).reshape(number, rows)
        parts.append(metrics(counts.astype(np.float64)))
    tail = 100 * (1 - confidence) / 2
    intervals = {}
    for name in parts[0]:
        low, high = np.percentile(np.concatenate([part[name] for part in parts]), [tail, 100 - tail])
        intervals[name] = (float(low), float(high))
    return intervals


def weighted_metrics(task: Task, decisions: np.ndarray, references: np.ndarray) -> Metrics:
    """The metrics of the fine-tuning stage (`greffe.train.metrics`), single numbers only, for weighted rows."""
    if task == "single_label":
        classes = int(max(decisions.max(), references.max())) + 1
        decided, true = np.eye(classes)[decisions], np.eye(classes)[references]
        return lambda weights: _class_metrics(weights, decided, true)
    if task == "multi_label":
        return lambda weights: _label_metrics(weights, decisions.astype(np.float64), references.astype(np.float64))
    return lambda weights: _number_metrics(weights, decisions.astype(np.float64), references.astype(np.float64))


def _class_metrics(weights: np.ndarray, decided: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    right, predicted, rows = weights @ (decided * true), weights @ decided, weights @ true  # (S, C)
    seen = predicted + rows > 0
    return {
        "accuracy": right.sum(1) / weights.sum(1),
        # Over the classes that are there or were predicted, as the metric has it.
        "macro_f1": (_divide(2 * right, predicted + rows) * seen).sum(1) / seen.sum(1),
    }


def _label_metrics(weights: np.ndarray, decided: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    right, predicted, rows = weights @ (decided * true), weights @ decided, weights @ true  # (S, C)
    return {
        "micro_f1": _divide(2 * right.sum(1), (predicted + rows).sum(1)),
        "macro_f1": _divide(2 * right, predicted + rows).mean(1),
        "subset_accuracy": weights @ (decided == true).all(axis=1) / weights.sum(1),
    }


def _number_metrics(weights: np.ndarray, decided: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    total = weights.sum(1)
    return {
        "mse": weights @ (decided - true) ** 2 / total,
        "mae": weights @ np.abs(decided - true) / total,
        "pearson": _correlate(weights, decided - decided.mean(), true - true.mean()),
        "spearman": _correlate(weights, _rank(weights, decided), _rank(weights, true)),
    }


def _rank(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(S, N) ranks of the values within each resample, equal values sharing the mean of theirs."""
    _, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    counts = np.add.reduceat(weights[:, order], starts, axis=1)  # (S, distinct values)
    return (counts.cumsum(1) - (counts + 1) / 2)[:, inverse]


def _correlate(weights: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    total = weights.sum(1, keepdims=True)
    first = first - (weights * first).sum(1, keepdims=True) / total
    second = second - (weights * second).sum(1, keepdims=True) / total
    norm = np.sqrt((weights * first**2).sum(1) * (weights * second**2).sum(1))
    return np.clip(_divide((weights * first * second).sum(1), norm), -1, 1)


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


__all__ = ["bootstrap_intervals", "weighted_metrics"]
