"""Labels by name, labels by number: one order for a model's life, from the data into its configuration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .labelled_data import LabelledTexts, Task, as_number

# What transformers calls the tasks, in `config.problem_type`.
PROBLEM_TYPES: dict[Task, str] = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_SHOWN = 5  # names that an error lists


@dataclass(frozen=True)
class LabelSet:
    """The names of a model's outputs, in the order of their ids. A regression has one output, named by its column."""

    task: Task
    names: tuple[str, ...]

    @property
    def id2label(self) -> dict[int, str]:
        return dict(enumerate(self.names))

    @property
    def label2id(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @property
    def problem_type(self) -> str:
        return PROBLEM_TYPES[self.task]

    @classmethod
    def from_config(cls, problem_type: str | None, id2label: Mapping[int, str]) -> LabelSet:
        """The labels that a saved model was trained with."""
        tasks = {name: task for task, name in PROBLEM_TYPES.items()}
        task = tasks[problem_type or PROBLEM_TYPES["single_label"]]
        return cls(task, tuple(name for _, name in sorted((int(key), name) for key, name in id2label.items())))


def collect_labels(train: LabelledTexts) -> LabelSet:
    """The labels of the training data: numbers in their own order, then words sorted by code point."""
    if train.task == "regression":
        if len(set(train.labels)) < 2:
            raise ValueError(
                f"expected different numbers in column {train.label_column!r} of {train.path}, found "
                f"{train.labels[0]} in all {len(train):,} rows; there is nothing to learn"
            )
        return LabelSet(train.task, (train.label_column,))
    counts = count_labels(train)
    where = f"column {train.label_column!r} of {train.path}"
    if train.task == "multi_label" and not counts:
        raise ValueError(f"expected at least one label in {where}, found none in {len(train):,} rows")
    if train.task == "single_label" and len(counts) < 2:
        raise ValueError(
            f"expected at least two classes in {where}, found only {next(iter(counts))!r} in {len(train):,} rows; "
            "add examples of another class, or pass --label_column"
        )
    if train.task == "single_label" and len(counts) == len(train) > 10:
        numeric = all(_number(name) is not None for name in counts)
        raise ValueError(
            f"expected classes that several texts share in {where}, found {len(counts):,} different labels in "
            f"{len(train):,} rows; pass --label_column{' or --task regression' if numeric else ''}"
        )
    return LabelSet(train.task, tuple(counts))


def encode_labels(data: LabelledTexts, labels: LabelSet) -> list[int] | list[list[float]] | list[float]:
    """What the model's loss takes: a class id; a 0 or 1 for each label; a number."""
    if data.task != labels.task:
        raise ValueError(
            f"expected {labels.task} labels in {data.path}, as in training, found {data.task}; pass --task "
            f"{labels.task}"
        )
    if data.task == "regression":
        return [label for label in data.labels if isinstance(label, float)]
    _check_known(data, labels)
    ids = labels.label2id
    if data.task == "single_label":
        return [ids[label] for label in data.labels if isinstance(label, str)]
    # Floats: the loss of several labels is a binary cross-entropy, which takes no integers.
    return [[float(name in label) for name in labels.names] for label in data.labels if isinstance(label, tuple)]


def count_labels(data: LabelledTexts) -> dict[str, int]:
    """How many rows have each label, in the order of the labels' ids; empty for a regression."""
    counts = Counter(name for row in range(len(data)) for name in row_labels(data, row))
    return {name: counts[name] for name in sorted(counts, key=_order)}


def row_labels(data: LabelledTexts, row: int) -> tuple[str, ...]:
    """The names of a row's labels: one, several, none for a regression."""
    label = data.labels[row]
    return label if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


def _check_known(data: LabelledTexts, labels: LabelSet) -> None:
    known = set(labels.names)
    first: dict[str, int] = {}
    for row in range(len(data)):
        for name in row_labels(data, row):
            if name not in known:
                first.setdefault(name, row)
    if first:
        unknown = sorted(first, key=_order)
        numeric = all(_number(name) is not None for name in (*labels.names, *unknown))
        remedy = ", or pass --task regression" if numeric and data.task == "single_label" else ""
        raise ValueError(
            f"expected the labels of the training data, {_list(labels.names)}, in column {data.label_column!r} of "
            f"{data.path}, found {_list(unknown)} too, {unknown[0]!r} first in {data.place(first[unknown[0]])}; add "
            f"training examples of them, or remove those rows{remedy}"
        )


def _list(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _order(name: str) -> tuple[bool, float, str]:
    number = _number(name)
    return (number is None, number or 0.0, name)


def _number(name: str) -> float | None:
    number = as_number(name)
    return number if number is not None and math.isfinite(number) else None  # "nan" and "inf" are words


__all__ = ["PROBLEM_TYPES", "LabelSet", "collect_labels", "count_labels", "encode_labels", "row_labels"]
