"""What the figures share: a figure with its words, axes in per cent, and lines that are named where they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .palette import FONT_SIZE
from .words import name_method


@dataclass(frozen=True)
class Sketch:
    """A figure before it is a file, and the words that go with it."""

    figure: Figure
    title: str
    # How to read it, in one sentence.
    reading: str
    # What it shows, for those who do not see it.
    description: str
    # Where one title has several figures: which of them.
    part: str = ""


def set_percent(axis: Axis, most: int = 6) -> None:
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def pad(heights: Sequence[float]) -> tuple[float, float]:
    """Limits with room above and below, but none where no accuracy can be."""
    low, high = min(heights), max(heights)
    room = max(0.06 * (high - low), 0.01)
    return max(low - room, -0.01), min(high + room, 1.01)


def grid_across(axes: Axes) -> None:
    """Lines for the values of the x axis, where the y axis has names."""
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def name_lines(axes: Axes, ends: Sequence[tuple[str, float]], inches: float) -> None:
    """The names of methods beside the right ends of their lines, moved apart where they would touch."""
    low, high = axes.get_ylim()
    gap = (high - low) * FONT_SIZE * 1.25 / (72 * (inches - 0.75))  # a line of type, in a panel less its margins
    places = spread_apart([end for _, end in ends], gap)
    for (method, _), place in zip(ends, places, strict=True):
        axes.annotate(
            name_method(method), (1, place), (6, 0), ("axes fraction", "data"), "offset points",
            va="center_baseline", annotation_clip=False, weight="bold" if method == "pretrained" else "normal",
        )  # fmt: skip


def spread_apart(heights: Sequence[float], gap: float) -> list[float]:
    """The heights nearest to those given that keep their order and a gap: neighbours that touch share their middle."""
    order = sorted(range(len(heights)), key=lambda number: heights[number])
    groups: list[tuple[float, int]] = []  # mean of height less the gaps below it, and size
    for rank, number in enumerate(order):
        mean, size = heights[number] - rank * gap, 1
        while groups and groups[-1][0] > mean:
            before, length = groups.pop()
            mean, size = (before * length + mean * size) / (length + size), length + size
        groups.append((mean, size))
    placed = [mean for mean, size in groups for _ in range(size)]
    return [placed[rank] + rank * gap for rank in (order.index(number) for number in range(len(heights)))]


__all__ = ["Sketch", "grid_across", "name_lines", "pad", "set_percent", "spread_apart"]
