"""Labelled files: texts with a label each, checked row by row, and where each row stands."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from greffe.tokenization.formats import format_of
from greffe.tokenization.pretokenized import read_pretokenized
from greffe.tokenization.rows import Column, place_of, read_rows
from greffe.tokenization.text_stream import COMPRESSIONS, Errors

Task = Literal["single_label", "multi_label", "regression"]
# A class by its name; several of them, or none; a number.
Label = str | tuple[str, ...] | float

_PIECES = ".review.spm"
_KNOWN = (
    f"a .csv or .jsonl file (plain or {', '.join(COMPRESSIONS)}), a .parquet file, or NAME{_PIECES} beside NAME.label"
)


@dataclass(frozen=True)
class LabelledTexts:
    """Some rows of one file. `texts`, `labels`, `numbers` and, where given, `input_ids` run in parallel."""

    path: Path
    task: Task
    label_column: str
    texts: list[str]
    labels: list[Label]
    # Where each row stands in the file: the line on which it ends; in parquet, the row.
    numbers: list[int]
    # Files that are already cut into pieces give the ids as well: the tokenizer is not asked.
    input_ids: list[list[int]] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, row: int) -> str:
        """Where a row stands, for messages: `reviews.csv, line 12`."""
        return place_of(self.path, self.numbers[row])

    def fingerprint(self) -> str:
        """A hash of what is learned from: texts, labels and, where given, ids; not of where they stand."""
        digest = hashlib.sha256()
        columns: list[Sequence[Any]] = [self.texts, self.labels]
        for row in zip(*columns, *([self.input_ids] if self.input_ids else []), strict=True):
            digest.update(repr(row).encode())
        return digest.hexdigest()[:32]

    def select(self, rows: Sequence[int]) -> LabelledTexts:
        """The given rows, in the given order."""
        return replace(
            self,
            texts=[self.texts[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            numbers=[self.numbers[row] for row in rows],
            input_ids=None if self.input_ids is None else [self.input_ids[row] for row in rows],
        )


def read_labelled(
    path: str | os.PathLike[str],
    *,
    text_column: str = "text",
    label_column: str = "label",
    task: Task | Literal["auto"] = "auto",
    label_separator: str | None = None,
    errors: Errors = "strict",
    dictionary: str | os.PathLike[str] | dict[str, int] | None = None,
) -> LabelledTexts:
    """The rows of a labelled file, none dropped: blank texts too, so that predictions line up with the file.

    `auto` takes lists for `multi_label`, numbers of which one has a fraction for `regression`, anything else for
    `single_label`. A label is known by its name: the numbers 1 and 1.0 are "1", as the text `1` of a CSV is; other
    text stays as it stands, so "007" and "1.0" are names of their own. `label_separator` cuts the field of a file
    that has no lists (`drame, humour`) into several labels; with `multi_label` it is a comma unless given.
    `dictionary` is for files in pieces; by default the `dict.txt` beside them.
    """
    path = Path(path)
    _check_choices(task, label_separator, errors)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"expected a labelled file, {_KNOWN}, found {path}: {found}")
    if path.name.endswith(_PIECES):
        return _read_pieces(path, task, dictionary)
    if dictionary is not None:
        raise ValueError(f"expected a dictionary with NAME{_PIECES} files only, found one with {path}; leave it out")
    if format_of(path) in (None, ".txt"):
        raise ValueError(f"expected a labelled file, {_KNOWN}, found {path}; rename it after what it holds")
    return _read_table(path, text_column, label_column, task, label_separator, errors)


def _read_table(
    path: Path,
    text_column: str,
    label_column: str,
    task: Task | Literal["auto"],
    label_separator: str | None,
    errors: Errors,
) -> LabelledTexts:
    if text_column == label_column:
        raise ValueError(
            f"expected different columns for text and label, found {text_column!r} for both; pass --text_column or "
            "--label_column"
        )
    columns = [Column(text_column), Column(label_column, "--label_column", "the labels", is_text=False)]
    rows = list(read_rows(path, columns, errors))
    texts: list[str] = [row.values[0] for row in rows]
    numbers = [row.number for row in rows]
    if not any(text.strip() for text in texts):
        found = f"only blank texts in its {len(rows):,} rows" if rows else "no row"
        raise ValueError(f"expected labelled texts in {path}, found {found}; check the file and --text_column")
    values = [row.values[1] for row in rows]
    kind = _infer_task(values, label_separator) if task == "auto" else task
    check = _label_reader(kind, label_separator or ",")
    labels = [
        check(value, f"column {label_column!r} of {place_of(path, number)}")
        for value, number in zip(values, numbers, strict=True)
    ]
    return LabelledTexts(path, kind, label_column, texts, labels, numbers)


def _check_choices(task: str, label_separator: str | None, errors: str) -> None:
    tasks = [*get_args(Task), "auto"]
    if task not in tasks:
        raise ValueError(f"expected task among {tasks}, found {task!r}")
    if errors not in get_args(Errors):
        raise ValueError(f"expected errors among {list(get_args(Errors))}, found {errors!r}")
    if label_separator is not None and (task in ("single_label", "regression") or not label_separator):
        raise ValueError(
            f"expected a label separator for several labels a text, found {label_separator!r} with task {task!r}; "
            "pass --task multi_label, or no separator"
        )


def _read_pieces(path: Path, task: str, dictionary: str | os.PathLike[str] | dict[str, int] | None) -> LabelledTexts:
    if task not in ("single_label", "auto"):
        raise ValueError(f"expected task 'single_label' for {path}, whose labels are classes, found {task!r}")
    name = path.with_name(path.name.removesuffix(_PIECES))
    reviews = read_pretokenized(name, path.with_name("dict.txt") if dictionary is None else dictionary)
    labels: list[Label] = [str(label) for label in reviews.labels]
    numbers = list(range(1, len(labels) + 1))
    return LabelledTexts(path, "single_label", "label", reviews.texts, labels, numbers, reviews.input_ids)


def _infer_task(values: list[Any], label_separator: str | None) -> Task:
    if label_separator is not None or any(isinstance(value, (list, tuple)) for value in values):
        return "multi_label"
    numbers = [as_number(value) for value in values]
    # A word or a missing value among them makes it classes; the reader of those names the row that is missing.
    fractions = any(number is not None and math.isfinite(number) and number % 1 for number in numbers)
    return "regression" if fractions and None not in numbers else "single_label"


def _label_reader(task: Task, separator: str) -> Callable[[Any, str], Label]:
    if task == "single_label":
        return _read_class
    if task == "regression":
        return _read_number
    return lambda value, place: _read_classes(value, place, separator)


def _read_class(value: Any, place: str) -> str:
    if isinstance(value, (list, tuple)):
        raise ValueError(f"expected one label in {place}, found {value!r:.60}; pass --task multi_label")
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if isinstance(value, str) and value.strip():
        return value.strip()
    number = None if isinstance(value, str) else as_number(value)
    if number is None or not math.isfinite(number):
        found = "nothing" if value is None or isinstance(value, str) else f"{type(value).__name__} {value!r:.40}"
        raise ValueError(f"expected a label in {place}, found {found}; give the row a word or a number, or remove it")
    return str(value) if isinstance(value, int) else str(int(number)) if number % 1 == 0 else repr(number)


def _read_classes(value: Any, place: str, separator: str) -> tuple[str, ...]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(
                f'expected a list of labels such as ["a", "b"] in {place}, found {value!r:.60}; write it as JSON, or '
                f"without brackets and with {separator!r} between the labels"
            ) from error
    elif isinstance(value, str):
        value = [part for part in value.split(separator) if part.strip()]  # an empty field is no label at all
    if not isinstance(value, (list, tuple)):
        found = "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
        raise ValueError(f"expected a list of labels in {place}, found {found}; write [] for none")
    names = tuple(_read_class(item, place) for item in value)
    if len(set(names)) < len(names):
        raise ValueError(
            f"expected each label once in {place}, found {list(names)!r:.60}; list the labels that hold, not a 0 or 1 "
            "for each"
        )
    return names


def _read_number(value: Any, place: str) -> float:
    number = as_number(value)
    if number is None or not math.isfinite(number):
        found = "nothing" if value is None or value == "" else f"{type(value).__name__} {value!r:.40}"
        raise ValueError(f"expected a number in {place}, found {found}; pass --task single_label for classes")
    return number


def as_number(value: Any) -> float | None:
    """The number that a value is, or that its text writes; None for anything else."""
    if isinstance(value, (bool, list, tuple, dict)) or value is None:
        return None
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return None  # float() reads 1_000 and the digits of every script
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


__all__ = ["Label", "LabelledTexts", "Task", "as_number", "read_labelled"]
