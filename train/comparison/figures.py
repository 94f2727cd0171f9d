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

from .figure_axes import Sketch
from .figure_budgets import draw_budgets
from .figure_confusion import SHOWN, draw_confusion
from .figure_differences import draw_differences
from .figure_epochs import draw_epochs
from .figure_parameters import draw_parameters
from .palette import SETTINGS

_DOTS_PER_INCH = 200  # 960 pixels across, twice what a page shows

_FIGURES: dict[str, Callable[[dict[str, Any], dict[str, Any]], list[Sketch]]] = {
    "accuracy-by-epoch": draw_epochs,
    "accuracy-by-labels": draw_budgets,
    "differences": draw_differences,
    "confusion": draw_confusion,
    "parameters": draw_parameters,
}
# All that a report can have; which of them it has depends on its results.
FIGURE_NAMES = (*_FIGURES, *(f"confusion-{method}" for method in SHOWN))


@dataclass(frozen=True)
class Drawing:
    """A figure in both formats, and the words that go with it. One title can have several."""

    name: str
    title: str
    reading: str
    description: str
    png: bytes
    svg: str


def draw_figures(results: dict[str, Any], statistics: dict[str, Any]) -> list[Drawing]:
    """All figures for which there is something to show."""
    with rc_context(SETTINGS), warnings.catch_warnings():
        # The font has no Chinese, say: the PNG shows boxes then, the page and the SVG the reader's own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return [
            _render(f"{name}-{sketch.part}" if sketch.part else name, sketch)
            for name, draw in _FIGURES.items()
            for sketch in draw(results, statistics)
        ]


def _render(name: str, sketch: Sketch) -> Drawing:
    png = _save(sketch.figure, "png")
    sketch.figure.set_layout_engine("none")  # everything has its place now, and keeps it
    svg = _save(sketch.figure, "svg").decode()
    return Drawing(name, sketch.title, sketch.reading, sketch.description, png, svg)


def _save(figure: Figure, file_format: str) -> bytes:
    """The same bytes for the same figure: without date and version."""
    file = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if file_format == "svg" else {"Software": None}
    figure.savefig(file, format=file_format, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


__all__ = ["FIGURE_NAMES", "Drawing", "draw_figures"]
