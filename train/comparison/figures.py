"""The figures of a report: each drawn once, narrow enough for a phone, and given as PNG and SVG.

Nothing of matplotlib's global state is changed: the settings are in force while the figures are drawn, no longer.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from .figure_bars import draw_confusion, draw_differences, draw_parameters
from .figure_curves import draw_budgets, draw_epochs
from .palette import SETTINGS

Draw = Callable[[dict[str, Any], dict[str, Any]], "tuple[Figure, str] | None"]

_DOTS_PER_INCH = 200  # 960 pixels across, twice what a page shows


@dataclass(frozen=True)
class Drawing:
    """A figure in both formats, and the words that go with it."""

    name: str
    title: str
    # How to read it, in one sentence.
    reading: str
    # What it shows, for those who do not see it.
    description: str
    png: bytes
    svg: str


_FIGURES: dict[str, tuple[Draw, str, str]] = {
    "accuracy-by-epoch": (
        draw_epochs,
        "Accuracy after each epoch",
        "Validation accuracy: a thin line for each seed, a thick one for their mean with its standard deviation as a "
        "band; a curve that starts high and flattens early needed little training.",
    ),
    "accuracy-by-labels": (
        draw_budgets,
        "Accuracy by number of labels",
        "Test accuracy, mean over seeds with the standard deviation as bars; a line further left at the same height "
        "needs fewer labels.",
    ),
    "differences": (
        draw_differences,
        "What pre-training adds",
        "Pre-trained less each of the others, in points of test accuracy with the 95 % interval; right of the line the "
        "pre-trained model is better, and an interval that crosses the line can be chance.",
    ),
    "confusion": (
        draw_confusion,
        "Which classes are taken for which",
        "Each row is a true class and its cells say which share of its texts was given each label, mean over seeds, "
        "with the number of texts; a good model has its colour on the diagonal.",
    ),
    "parameters": (
        draw_parameters,
        "Where the parameters are",
        "Of all numbers that the classifier learns, how many belong to each part; only the head is new in a graft.",
    ),
}
FIGURE_NAMES = tuple(_FIGURES)


def draw_figures(results: dict[str, Any], statistics: dict[str, Any]) -> list[Drawing]:
    """All figures for which there is something to show."""
    drawings = []
    with rc_context(SETTINGS), warnings.catch_warnings():
        # The font has no Chinese, say: the PNG shows boxes then, the page and the SVG the reader's own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for name, (draw, title, reading) in _FIGURES.items():
            if (drawn := draw(results, statistics)) is not None:
                figure, description = drawn
                png, svg = _render(figure, "png"), _render(figure, "svg").decode()
                drawings.append(Drawing(name, title, reading, description, png, svg))
    return drawings


def _render(figure: Figure, file_format: str) -> bytes:
    """The same bytes for the same figure: without the date."""
    file = io.BytesIO()
    metadata = {"Date": None} if file_format == "svg" else {"Software": None}
    figure.savefig(file, format=file_format, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


__all__ = ["FIGURE_NAMES", "Drawing", "draw_figures"]
