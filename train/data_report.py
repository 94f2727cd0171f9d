"""What labelled data is like before anything learns from it: sizes, balance, blanks, copies, leaks between parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .labelled_data import LabelledTexts
from .labels import count_labels
from .overlap import Overlap, find_duplicates, find_overlap

_SHOWN = 8  # classes on one line


@dataclass(frozen=True)
class PartReport:
    """One part of the data. Copies are counted once for each row that repeats an earlier one."""

    name: str
    file: str
    rows: int
    # Rows of each label; empty for a regression, which has `numbers` instead.
    labels: dict[str, int]
    numbers: dict[str, float] | None
    blank: int
    duplicates: int
    near_duplicates: int
    # Duplicates whose label is not that of the row they repeat.
    conflicts: int


@dataclass(frozen=True)
class LeakReport:
    """How many rows of one part stand in another, and the first of them."""

    part: str
    other: str
    exact: int
    near: int
    example: str


@dataclass(frozen=True)
class DataReport:
    """`str()` of it is what a person reads, `to_dict()` what is saved beside the model."""

    parts: list[PartReport]
    leaks: list[LeakReport] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([*_list_parts(self.parts), *_list_leaks(self.leaks)])


def describe_data(parts: Mapping[str, LabelledTexts]) -> DataReport:
    """A report on the parts by name, in the order of their use: each is looked for in those that come after it."""
    names = list(parts)
    leaks = []
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            overlap = find_overlap(parts[name].texts, parts[other].texts)
            if overlap.rows:
                leaks.append(_describe_leak(name, other, parts, overlap))
    return DataReport([_describe_part(name, data) for name, data in parts.items()], leaks)


def _describe_part(name: str, data: LabelledTexts) -> PartReport:
    copies = find_duplicates(data.texts)
    values = [label for label in data.labels if isinstance(label, float)]
    numbers = {"min": min(values), "mean": sum(values) / len(values), "max": max(values)} if values else None
    return PartReport(
        name=name,
        file=str(data.path),
        rows=len(data),
        labels=count_labels(data),
        numbers=numbers,
        blank=sum(not text.strip() for text in data.texts),
        duplicates=len(copies.exact),
        near_duplicates=len(copies.near),
        conflicts=sum(data.labels[copy.row] != data.labels[copy.other] for copy in copies.exact),
    )


def _describe_leak(name: str, other: str, parts: Mapping[str, LabelledTexts], overlap: Overlap) -> LeakReport:
    match = (overlap.exact or overlap.near)[0]
    example = f"{parts[name].place(match.row)} = {parts[other].place(match.other)}"
    return LeakReport(name, other, len(overlap.exact), len(overlap.near), example)


def _list_parts(parts: list[PartReport]) -> list[str]:
    titles = ("data", "rows", "blank", "duplicates", "near", "other label", "labels")
    lines = [
        (part.name, part.rows, part.blank, part.duplicates, part.near_duplicates, part.conflicts, _balance(part))
        for part in parts
    ]
    return _align(titles, lines)


def _list_leaks(leaks: list[LeakReport]) -> list[str]:
    if not leaks:
        return []
    lines = [(f"{leak.part} in {leak.other}", leak.exact, leak.near, leak.example) for leak in leaks]
    return _align(("overlap", "exact", "near", "first"), lines)


def _balance(part: PartReport) -> str:
    if part.numbers is not None:
        return ", ".join(f"{name} {value:g}" for name, value in part.numbers.items())
    labels = list(part.labels.items())
    if len(labels) > _SHOWN:
        labels.sort(key=lambda item: -item[1])
    shown = ", ".join(f"{name}: {rows:,} ({rows / part.rows:.1%})" for name, rows in labels[:_SHOWN])
    return shown + (f" and {len(labels) - _SHOWN} rarer ones" if len(labels) > _SHOWN else "")


def _align(titles: Sequence[str], lines: Sequence[Sequence[str | int]]) -> list[str]:
    """Columns of one width each: words to the left, numbers to the right."""
    rows = [list(titles), *([f"{cell:,}" if isinstance(cell, int) else cell for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [isinstance(cell, int) for cell in lines[0]]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]


__all__ = ["DataReport", "LeakReport", "PartReport", "describe_data"]
