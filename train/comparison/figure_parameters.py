"""Where the parameters are: a bar for each part of the classifier."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from .figure_axes import Sketch
from .palette import PAPER, WIDTH
from .words import one_line, percent


def draw_parameters(results: dict[str, Any], statistics: dict[str, Any]) -> list[Sketch]:
    parts = {one_line(name, 20): number for name, number in results["model"]["parameters"].items() if number}
    if not parts:
        return []
    total = sum(parts.values())
    figure = Figure(figsize=(WIDTH, 0.2 + 0.36 * len(parts)), layout="constrained")
    axes = figure.add_subplot()
    # The new head in the colour of what is not pre-trained.
    colours = [PAPER["scratch" if name == "head" else "pretrained"] for name in parts]
    axes.barh(range(len(parts)), list(parts.values()), 0.62, color=colours)
    for place, number in enumerate(parts.values()):
        share = "< 0.1 %" if number < 0.001 * total else percent(number / total)
        axes.annotate(f"{number:,} ({share})", (number, place), (5, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(parts)), list(parts), color=PAPER["ink"])
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.set_xlim(0, max(parts.values()) * 1.02)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    listed = ", ".join(f"{name} {number:,}" for name, number in parts.items())
    reading = "How many of the numbers that the classifier learns belong to each part; only the head is new in a graft."
    return [Sketch(figure, "Where the parameters are", reading, f"Parameters, {total:,} in all: {listed}.")]


__all__ = ["draw_parameters"]
