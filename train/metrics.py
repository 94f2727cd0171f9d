"""Scores of a classifier or a regression, as `evaluate` metrics that need no network and leave no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from .labelled_data import Task

_INTEGER, _NUMBER = datasets.Value("int64"), datasets.Value("float64")
_ONE_A_ROW = {"predictions": _INTEGER, "references": _INTEGER}
_SEVERAL_A_ROW = {"predictions": datasets.Sequence(_INTEGER), "references": datasets.Sequence(_INTEGER)}
_NUMBER_A_ROW = {"predictions": _NUMBER, "references": _NUMBER}


class GreffeMetric(evaluate.Metric):
    """A metric of this package. The library's own keep what they are given in files under the user's cache, locked;
    these keep it in memory, so that runs beside each other do not meet and a read-only home does not matter."""

    inputs: Mapping[str, Any] = _ONE_A_ROW

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)

    def _build_data_dir(self) -> str:
        return ""  # the library would make the folder even for a metric in memory

    def _info(self) -> evaluate.MetricInfo:
        description = type(self).__doc__ or ""
        features = datasets.Features(dict(self.inputs))
        return evaluate.MetricInfo(
            description=description, citation="", inputs_description=description, features=features
        )

    def _compute(self, predictions: Any, references: Any) -> dict[str, Any]:
        predictions, references = np.asarray(predictions), np.asarray(references)
        if not len(references):
            raise ValueError("expected at least one prediction to score, found none; check the evaluation data")
        return self.score(predictions, references)

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        raise NotImplementedError


class Accuracy(GreffeMetric):
    """The share of rows whose class was found."""

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        return {"accuracy": float(np.mean(predictions == references))}


class MacroF1(GreffeMetric):
    """The mean of the F1 of each class that is there or was predicted: a rare class counts as much as a common one."""

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        classes = int(max(predictions.max(), references.max())) + 1
        return {"macro_f1": _mean_f1(*_count_classes(predictions, references, classes))}


class ClassScores(GreffeMetric):
    """Precision, recall, F1 and rows of each class by name, and the confusion matrix: a row for each true class."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        super().__init__()

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        counts = _count_classes(predictions, references, len(self.names))
        matrix = np.zeros((len(self.names), len(self.names)), int)
        np.add.at(matrix, (references, predictions), 1)
        return {"per_class": _name_scores(self.names, *counts), "confusion_matrix": matrix.tolist()}


class SubsetAccuracy(GreffeMetric):
    """The share of rows with all labels right."""

    inputs = _SEVERAL_A_ROW

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        return {"subset_accuracy": float(np.mean((predictions == references).all(axis=1)))}


class MultiLabelF1(GreffeMetric):
    """F1 over all decisions (micro), and the mean of the F1 of each label (macro)."""

    inputs = _SEVERAL_A_ROW

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        right, predicted, true = _count_labels(predictions, references)
        micro = _divide(2 * right.sum(), predicted.sum() + true.sum())
        # All labels, the absent ones as 0, as scikit-learn has it for label matrices.
        return {"micro_f1": float(micro), "macro_f1": float(_divide(2 * right, predicted + true).mean())}


class LabelScores(GreffeMetric):
    """Precision, recall, F1 and rows of each label by name."""

    inputs = _SEVERAL_A_ROW

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        super().__init__()

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        return {"per_class": _name_scores(self.names, *_count_labels(predictions, references))}


class MeanErrors(GreffeMetric):
    """The mean squared and the mean absolute error."""

    inputs = _NUMBER_A_ROW

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        difference = predictions - references
        return {"mse": float(np.mean(difference**2)), "mae": float(np.mean(np.abs(difference)))}


class Correlations(GreffeMetric):
    """Pearson's correlation, and Spearman's, which is Pearson's of the ranks. Where one side is constant, both are 0:
    it tells nothing of the other."""

    inputs = _NUMBER_A_ROW

    def score(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, Any]:
        return {
            "pearson": _correlate(predictions, references),
            "spearman": _correlate(_rank(predictions), _rank(references)),
        }


def make_compute_metrics(
    task: Task, id2label: Mapping[int, str], *, detailed: bool = True
) -> Callable[[Any], dict[str, Any]]:
    """A `compute_metrics` for Trainer. Without `detailed` it gives single numbers only, as loggers want them."""
    names = [id2label[number] for number in sorted(id2label)]
    metrics: dict[Task, list[GreffeMetric]] = {
        "single_label": [Accuracy(), MacroF1(), *([ClassScores(names)] if detailed else [])],
        "multi_label": [MultiLabelF1(), SubsetAccuracy(), *([LabelScores(names)] if detailed else [])],
        "regression": [MeanErrors(), Correlations()],
    }
    if task not in metrics:
        raise ValueError(f"expected task among {list(metrics)}, found {task!r}")
    combined = evaluate.combine(metrics[task])

    def compute_metrics(evaluation: Any) -> dict[str, Any]:
        logits, references = evaluation.predictions, np.asarray(evaluation.label_ids)
        # A model that returns more than logits gives a tuple, which they lead.
        logits = np.asarray(logits[0] if isinstance(logits, tuple) else logits)
        _check_logits(logits, len(names))
        return dict(combined.compute(predictions=_decide(logits, task), references=_flatten(references, task)))

    return compute_metrics


def _decide(logits: np.ndarray, task: Task) -> np.ndarray:
    """(B, labels) logits to what the model says: a class; a 0 or 1 for each label; a number."""
    if task == "single_label":
        return logits.argmax(axis=-1)
    if task == "multi_label":
        return (logits > 0).astype(np.int64)  # a probability above one half
    return _flatten(logits, task).astype(np.float64)


def _flatten(values: np.ndarray, task: Task) -> np.ndarray:
    if task == "multi_label":
        return values.astype(np.int64)
    return values.reshape(-1) if values.ndim == 2 else values


def _check_logits(logits: np.ndarray, outputs: int) -> None:
    if logits.ndim != 2 or logits.shape[1] != outputs:
        raise ValueError(f"expected logits for {outputs} labels a row, found an array of shape {logits.shape}")
    bad = ~np.isfinite(logits).all(axis=1)
    if bad.any():  # argmax would take NaN for the largest, and score it
        raise ValueError(
            f"expected finite logits, found NaN or infinity in {int(bad.sum()):,} of {len(logits):,} rows, row "
            f"{int(bad.argmax()):,} the first; lower --learning_rate"
        )


def _count_classes(
    predictions: np.ndarray, references: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each class: rows found, rows predicted, rows that are of it."""
    right = np.bincount(references[predictions == references], minlength=classes)
    return right, np.bincount(predictions, minlength=classes), np.bincount(references, minlength=classes)


def _count_labels(predictions: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (predictions * references).sum(axis=0), predictions.sum(axis=0), references.sum(axis=0)


def _mean_f1(right: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> float:
    seen = predicted + true > 0
    return float(_divide(2 * right, predicted + true)[seen].mean())


def _name_scores(names: list[str], right: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    columns = {
        "precision": _divide(right, predicted).tolist(),
        "recall": _divide(right, true).tolist(),
        "f1": _divide(2 * right, predicted + true).tolist(),
        "rows": true.tolist(),
    }
    return {name: {score: values[row] for score, values in columns.items()} for row, name in enumerate(names)}


def _divide(above: Any, below: Any) -> np.ndarray:
    """The quotient; 0 where there is nothing to divide by, such as the precision of a class never predicted."""
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _correlate(first: np.ndarray, second: np.ndarray) -> float:
    first, second = first - first.mean(), second - second.mean()
    norm = np.sqrt((first**2).sum() * (second**2).sum())
    return float(np.clip((first * second).sum() / norm, -1, 1)) if norm > 0 else 0.0


def _rank(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[inverse]


__all__ = [
    "Accuracy",
    "ClassScores",
    "Correlations",
    "GreffeMetric",
    "LabelScores",
    "MacroF1",
    "MeanErrors",
    "MultiLabelF1",
    "SubsetAccuracy",
    "make_compute_metrics",
]
