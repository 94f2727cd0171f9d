"""A validation part cut from labelled texts: every class on both sides, no text on both."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from .labelled_data import LabelledTexts
from .labels import count_labels, row_labels
from .overlap import normalise_text

_BINS = 10  # of a regression's numbers, each with as many rows


def split_validation(data: LabelledTexts, fraction: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """The rows to train on and the rows to validate with, both in the order of the file.

    Rows with the same text go together. Each class gives its share of rows, at least one text to each side if it has
    two; a class with one text is trained on, since a model cannot be asked for what it was never shown.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"expected a validation fraction between 0 and 1, found {fraction}")
    groups = _group_by_text(data)
    strata = _stratify(data, groups)
    draw = random.Random(seed)
    held_out: set[int] = set()  # groups
    for stratum in sorted(strata):
        members = strata[stratum]
        draw.shuffle(members)
        held_out.update(_take(members, groups, fraction))
    _give_back_labels(data, groups, held_out)
    validation = sorted(row for group in held_out for row in groups[group])
    if not validation or len(validation) == len(data):
        raise ValueError(
            f"expected at least two texts of a class to split {data.path}, found {len(groups):,} different texts in "
            f"{len(data):,} rows; pass --validation with a file of its own"
        )
    taken = set(validation)
    return data.select([row for row in range(len(data)) if row not in taken]), data.select(validation)


def _group_by_text(data: LabelledTexts) -> list[list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(data.texts):
        groups[normalise_text(text)].append(row)
    return list(groups.values())


def _stratify(data: LabelledTexts, groups: list[list[int]]) -> dict[str, list[int]]:
    """The groups to draw from, by class. A text that has several goes with the rarest: there is most to lose."""
    strata: dict[str, list[int]] = defaultdict(list)
    if data.task == "regression":
        order = sorted(range(len(groups)), key=lambda group: (data.labels[groups[group][0]], group))
        bins = min(_BINS, max(len(groups) // 2, 1))
        for rank, group in enumerate(order):
            strata[f"{rank * bins // len(groups):02}"].append(group)
        return strata
    counts = count_labels(data)
    for group, rows in enumerate(groups):
        names = {name for row in rows for name in row_labels(data, row)}
        strata[min(names, key=lambda name: (counts[name], name), default="")].append(group)
    return strata


def _take(members: list[int], groups: list[list[int]], fraction: float) -> list[int]:
    """The groups, in their order, whose rows add up to about the fraction; one at least, and not all."""
    if len(members) < 2:
        return []
    wanted = fraction * sum(len(groups[group]) for group in members)
    taken: list[int] = []
    rows = 0
    for group in members:
        # A group that reaches past what is wanted is taken if that comes nearer to it than to leave it.
        if rows + len(groups[group]) / 2 <= wanted:
            taken.append(group)
            rows += len(groups[group])
    taken = taken or [min(members, key=lambda group: len(groups[group]))]
    return taken[: len(members) - 1]


def _give_back_labels(data: LabelledTexts, groups: list[list[int]], held_out: set[int]) -> None:
    """Return to training the texts without which it would lack a label: possible where texts have several."""
    labels = [Counter(name for row in rows for name in row_labels(data, row)) for rows in groups]
    trained = {name for group in range(len(groups)) if group not in held_out for name in labels[group]}
    for group in sorted(held_out):
        if not trained.issuperset(labels[group]):
            held_out.discard(group)
            trained.update(labels[group])


__all__ = ["split_validation"]
