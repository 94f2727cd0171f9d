"""Labelled texts in memory, as if read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from greffe.train.labelled_data import Label, LabelledTexts, Task


def make_labelled(
    texts: Sequence[str], labels: Sequence[Label], task: Task = "single_label", file: str = "train.csv"
) -> LabelledTexts:
    return LabelledTexts(Path(file), task, "label", list(texts), list(labels), list(range(2, len(texts) + 2)))
