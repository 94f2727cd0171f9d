"""What pre-training adds: the differences to the other methods with their intervals."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .figure_axes import Sketch, grid_across
from .palette import PAPER, WIDTH, line_style
from .statistics import find_difference
from .words import interval, name_budget, name_method, signed_points

_RIVALS = ("scratch", "tfidf", "frozen")  # the majority class would only stretch the scale
_READING = (
    "Pre-trained less each of the others, in points of test accuracy with the 95 % interval; right of the line the "
    "pre-trained model is better, and an interval that crosses the line can be chance."
)


def draw_differences(results: dict[str, Any], statistics: dict[str, Any]) -> list[Sketch]:
    """A line for each rival, in groups by budget, the largest first."""
    groups = []
    for budget in reversed(results["budgets"]):
        found = [difference for rival in _RIVALS if (difference := find_difference(statistics, rival, budget))]
        if found:
            groups.append((name_budget(results, budget), found))
    if not groups:
        return []
    lines = sum(1.25 + len(found) for _, found in groups)
    figure = Figure(figsize=(WIDTH, 0.75 + 0.29 * lines), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=PAPER["ink"], linewidth=1)
    _draw_groups(axes, groups)
    grid_across(axes)
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: signed_points(value / 100).removesuffix(".0")))
    axes.set_xlabel("points, pre-trained minus the other")
    return [Sketch(figure, "What pre-training adds", _READING, _describe(groups))]


def _draw_groups(axes: Axes, groups: list[tuple[str, list[dict[str, Any]]]]) -> None:
    place, names = 0.0, {}
    for name, found in groups:
        axes.annotate(
            name, (0, place), (-86, 0), ("axes fraction", "data"), "offset points", weight="bold", va="center"
        )  # fmt: skip
        for difference in found:
            place += 1
            names[place] = name_method(difference["rival"])
            _draw_difference(axes, difference, place)
        place += 1.25
    axes.set_ylim(place - 0.6, -0.5)
    axes.set_yticks(list(names), list(names.values()), color=PAPER["ink"])


def _draw_difference(axes: Axes, difference: dict[str, Any], place: float) -> None:
    style = line_style(difference["rival"])
    mean, low, high = (100 * difference[name] for name in ("mean", "low", "high"))
    axes.plot([low, high], [place, place], color=style.colour, linewidth=2.2, solid_capstyle="butt")
    axes.plot([mean], [place], color=style.colour, marker=style.marker, markersize=7)
    axes.annotate(
        signed_points(difference["mean"]), (1, place), (6, 0), ("axes fraction", "data"), "offset points",
        va="center", annotation_clip=False,
    )  # fmt: skip


def _describe(groups: list[tuple[str, list[dict[str, Any]]]]) -> str:
    parts = [
        f"with {name}, {signed_points(difference['mean'])} points to {name_method(difference['rival'])} "
        f"(95 % interval {interval(difference['low'], difference['high'])})"
        for name, found in groups
        for difference in found
    ]
    return f"Pre-trained minus the other: {'; '.join(parts)}."


__all__ = ["draw_differences"]
