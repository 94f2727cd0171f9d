"""Samples of the labelled texts: how many labels a run may see, and which."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from ..labelled_data import LabelledTexts

ALL = "all"


def parse_budgets(values: Sequence[str], rows: int, classes: int) -> list[str]:
    """The budgets in rising order, each once: numbers that the data can give, and `all`."""
    numbers = set()
    for value in values:
        if value == ALL:
            continue
        if not value.isdecimal() or not classes <= int(value) <= rows:
            raise ValueError(
                f"expected --labels {ALL}, or numbers between {classes} (a text of each class) and {rows:,} (the "
                f"training texts), found {value!r}"
            )
        numbers.add(int(value))
    return [str(number) for number in sorted(numbers)] + [ALL] * (ALL in values)


def sample_rows(data: LabelledTexts, budget: str, seed: int) -> list[int]:
    """The rows of a budget, in the order of the file: each class has its share, and one text at least.

    A larger budget of the same seed holds all of a smaller one, so that budgets differ by what was added alone.
    """
    if budget == ALL:
        return list(range(len(data)))
    classes: dict[object, list[int]] = defaultdict(list)
    for row, label in enumerate(data.labels):
        classes[label].append(row)
    draw = random.Random(seed)
    ranked = []
    for name in sorted(classes, key=str):
        rows = classes[name]
        draw.shuffle(rows)
        # Where in its class a row stands, as a share: taking rows by it takes from all classes at the same pace.
        ranked += [(place > 0, (place + 0.5) / len(rows), str(name), row) for place, row in enumerate(rows)]
    return sorted(row for *_, row in sorted(ranked)[: int(budget)])


__all__ = ["ALL", "parse_budgets", "sample_rows"]
