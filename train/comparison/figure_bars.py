"""Figures of quantities side by side: differences with their intervals, confusion matrices, parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .palette import FONT_SIZE, PAPER, WIDTH, line_style
from .results import largest_budget, select_runs
from .statistics import find_difference
from .words import interval, name_budget, name_method, one_line, percent, signed_points

_RIVALS = ("scratch", "tfidf", "frozen")  # the majority class would only stretch the scale
_MOST_SIDE_BY_SIDE = 3  # classes of matrices that stand in one row
_MOST_WITH_NUMBERS = 12  # classes whose cells have room for numbers


def draw_differences(results: dict[str, Any], statistics: dict[str, Any]) -> tuple[Figure, str] | None:
    """A line for each rival, in groups by budget, the largest first."""
    groups = [
        (name_budget(results, budget), [d for rival in _RIVALS if (d := find_difference(statistics, rival, budget))])
        for budget in reversed(results["budgets"])
    ]
    groups = [(name, found) for name, found in groups if found]
    if not groups:
        return None
    lines = sum(1.25 + len(found) for _, found in groups)
    figure = Figure(figsize=(WIDTH, 0.75 + 0.29 * lines), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=PAPER["ink"], linewidth=1)
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
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0"))
    axes.set_xlabel("points, pre-trained minus the other")
    return figure, _describe_differences(groups)


def _draw_difference(axes: Axes, difference: dict[str, Any], place: float) -> None:
    style = line_style(difference["rival"])
    mean, low, high = (100 * difference[name] for name in ("mean", "low", "high"))
    axes.plot([low, high], [place, place], color=style.colour, linewidth=2.2, solid_capstyle="butt")
    axes.plot([mean], [place], color=style.colour, marker=style.marker, markersize=7)
    axes.annotate(
        signed_points(difference["mean"]), (1, place), (6, 0), ("axes fraction", "data"), "offset points",
        va="center", annotation_clip=False,
    )  # fmt: skip


def _describe_differences(groups: list[tuple[str, list[dict[str, Any]]]]) -> str:
    parts = [
        f"with {name}, {signed_points(d['mean'])} points to {name_method(d['rival'])} "
        f"(95 % interval {interval(d['low'], d['high'])})"
        for name, found in groups
        for d in found
    ]
    return f"Pre-trained minus the other: {'; '.join(parts)}."


def draw_confusion(results: dict[str, Any], statistics: dict[str, Any]) -> tuple[Figure, str] | None:
    """Scratch, pre-trained and TF-IDF, each at its largest budget: side by side if the classes are few."""
    found = {}
    for method in ("scratch", "pretrained", "tfidf"):
        if (budget := largest_budget(results, method)) is not None:
            found[method] = mean_confusion(select_runs(results, method, budget)), name_budget(results, budget)
    if not found:
        return None
    classes, is_row = len(results["labels"]), len(results["labels"]) <= _MOST_SIDE_BY_SIDE
    height = 2.25 if is_row else min(max(0.45 * classes, 2.6), 4.2) + 0.5
    figure = Figure(figsize=(WIDTH, height if is_row else height * len(found)), layout="constrained")
    grid = figure.subplots(1 if is_row else len(found), len(found) if is_row else 1, squeeze=False)
    for number, (axes, (method, (matrix, labels))) in enumerate(zip(grid.flat, found.items(), strict=True)):
        _draw_matrix(axes, matrix, results["labels"], method)
        is_same = len({name for _, name in found.values()}) == 1
        axes.set_title(name_method(method) if is_same else f"{name_method(method)}, {labels}")
        if is_row and number:
            axes.tick_params(labelleft=False)
        if number == 0 or not is_row:
            axes.set_ylabel("true")
        if not is_row or number == len(found) // 2:
            axes.set_xlabel("predicted")
    return figure, _describe_confusion(results, found)


def mean_confusion(runs: list[dict[str, Any]]) -> np.ndarray:
    """Rows are true classes; the mean number of texts over the runs."""
    return np.mean([run["test"]["confusion_matrix"] for run in runs], axis=0)


def share_of_class(matrix: np.ndarray) -> np.ndarray:
    """Each row over its sum; NaN for a class without texts."""
    totals = matrix.sum(axis=1, keepdims=True)
    return np.divide(matrix, totals, out=np.full(matrix.shape, np.nan), where=totals > 0)


def _draw_matrix(axes: Axes, matrix: np.ndarray, labels: list[str], method: str) -> None:
    classes = len(labels)
    shares = share_of_class(matrix)
    size = FONT_SIZE if classes <= _MOST_SIDE_BY_SIDE else max(5.5, FONT_SIZE - 0.45 * classes)
    for true in range(classes):
        for predicted in range(classes):
            share = shares[true, predicted]
            opacity = 0.0 if np.isnan(share) else 0.06 + 0.94 * share
            cell = Rectangle(
                (predicted, true), 1, 1, facecolor=(line_style(method).colour, opacity), edgecolor=PAPER["paper"]
            )
            axes.add_patch(cell)
            if classes <= _MOST_WITH_NUMBERS:
                colour = PAPER["on-fill"] if opacity > 0.6 else PAPER["ink"]
                _write_cell(axes, predicted, true, share, matrix[true, predicted], size, colour)
    names = [one_line(label, 8 if classes <= _MOST_SIDE_BY_SIDE else 14) or "–" for label in labels]
    middles = np.arange(classes) + 0.5
    is_long = sum(map(len, names)) > 14
    axes.set(xlim=(0, classes), ylim=(classes, 0), aspect="equal" if classes <= _MOST_SIDE_BY_SIDE else "auto")
    axes.set_xticks(middles, names, rotation=40 if is_long else 0, ha="right" if is_long else "center")
    axes.set_yticks(middles, names)
    axes.tick_params(length=0, labelcolor=PAPER["ink"], labelsize=max(size, 8))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _write_cell(axes: Axes, column: int, row: int, share: float, texts: float, size: float, colour: str) -> None:
    words = "–" if np.isnan(share) else f"{100 * share:.0f} %"
    is_large = size == FONT_SIZE
    axes.text(
        column + 0.5, row + (0.42 if is_large else 0.5), words, ha="center", va="center", color=colour, fontsize=size
    )
    if is_large and not np.isnan(share):
        axes.text(column + 0.5, row + 0.7, f"{texts:,.0f}", ha="center", va="center", color=colour, fontsize=8)


def _describe_confusion(results: dict[str, Any], found: dict[str, tuple[np.ndarray, str]]) -> str:
    parts = []
    for method, (matrix, labels) in found.items():
        diagonal = np.diag(share_of_class(matrix))
        rights = [
            f"{percent(share)} of {one_line(label, 40)}"
            for label, share in zip(results["labels"], diagonal, strict=True)
            if not np.isnan(share)
        ]
        parts.append(f"{name_method(method)} with {labels} has right {', '.join(rights)}")
    return f"Confusion matrices: {'; '.join(parts)}."


def draw_parameters(results: dict[str, Any], statistics: dict[str, Any]) -> tuple[Figure, str] | None:
    parts = {name: number for name, number in results["model"]["parameters"].items() if number}
    if not parts:
        return None
    total = sum(parts.values())
    figure = Figure(figsize=(WIDTH, 0.45 + 0.36 * len(parts)), layout="constrained")
    axes = figure.add_subplot()
    # The new head in the colour of what is not pre-trained.
    colours = [PAPER["scratch" if name == "head" else "pretrained"] for name in parts]
    axes.barh(range(len(parts)), list(parts.values()), 0.62, color=colours)
    for place, number in enumerate(parts.values()):
        words = f"{number:,} ({_small_percent(number / total)})"
        axes.annotate(words, (number, place), (5, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(parts)), list(parts), color=PAPER["ink"])
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.set_xlim(0, max(parts.values()) * 1.02)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    shares = [f"{name} {number:,}" for name, number in parts.items()]
    return figure, f"Parameters, {total:,} in all: {', '.join(shares)}."


def _small_percent(share: float) -> str:
    return "< 0.1 %" if share < 0.001 else percent(share)


__all__ = ["draw_confusion", "draw_differences", "draw_parameters", "mean_confusion", "share_of_class"]
