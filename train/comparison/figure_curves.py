"""Figures of accuracy: by epoch, and by number of labels. Lines are named where they end, not in a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from .palette import FONT_SIZE, PAPER, WIDTH, line_style
from .results import select_runs
from .statistics import find_summary
from .tables import shown_methods
from .words import count_labels, join, name_budget, name_method, percent

_LARGE, _SMALL = 3.1, 1.9  # inches of height of the main panel, and of a row of small ones
_TRAINED = ("scratch", "frozen", "pretrained")


def draw_epochs(results: dict[str, Any], statistics: dict[str, Any]) -> tuple[Figure, str] | None:
    """The largest budget in a large panel, the others in small ones below, all on the same scale."""
    budgets = [budget for budget in reversed(results["budgets"]) if _curves(results, budget)]
    if not budgets:
        return None
    rows = math.ceil(len(budgets[1:]) / 2)
    figure = Figure(figsize=(WIDTH, _LARGE + _SMALL * rows), layout="constrained")
    grid = figure.add_gridspec(1 + rows, 2, height_ratios=[_LARGE, *[_SMALL] * rows])
    limits = _accuracy_limits(results, budgets)
    for number, budget in enumerate(budgets):
        row, column = divmod(number + 1, 2)
        is_alone = number == 0 or len(budgets) == 2
        axes = figure.add_subplot(grid[0 if number == 0 else row, :] if is_alone else grid[row, column])
        axes.set_ylim(*limits)
        axes.set_title(name_budget(results, budget))
        ends = _draw_panel(axes, results, statistics, budget)
        _set_percent(axes)
        axes.xaxis.set_major_locator(MaxNLocator(6 if is_alone else 4, integer=True))
        if number == 0:
            axes.set_xlabel("epoch")
            _name_lines(axes, ends, _LARGE)
        elif column:
            axes.tick_params(labelleft=False)
    return figure, _describe_epochs(results, budgets[0])


def _curves(results: dict[str, Any], budget: str) -> dict[str, list[list[dict[str, Any]]]]:
    """The epochs of each run, for each method that has epochs."""
    found = {
        method: [run["epochs"] for run in select_runs(results, method, budget) if run["epochs"]] for method in _TRAINED
    }
    return {method: curves for method, curves in found.items() if curves}


def _mean_curve(curves: list[list[dict[str, Any]]]) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Epochs, mean and standard deviation as far as all runs went: beyond, the mean would be one of other runs."""
    shared = min(map(len, curves))
    accuracies = np.array([[epoch["accuracy"] for epoch in curve[:shared]] for curve in curves])  # (runs, epochs)
    spread = accuracies.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(shared)
    return [epoch["epoch"] for epoch in curves[0][:shared]], accuracies.mean(axis=0), spread


def _draw_panel(
    axes: Axes, results: dict[str, Any], statistics: dict[str, Any], budget: str
) -> list[tuple[str, float]]:
    """Draw one budget; returns the name and the last height of each line."""
    ends = []
    last = 1
    for method, curves in _curves(results, budget).items():
        style = line_style(method)
        for curve in curves:
            epochs = [epoch["epoch"] for epoch in curve]
            axes.plot(epochs, [epoch["accuracy"] for epoch in curve], color=style.colour, linewidth=0.7, alpha=0.35)
            last = max(last, *epochs)
        shared, mean, spread = _mean_curve(curves)
        axes.fill_between(shared, mean - spread, mean + spread, color=style.colour, alpha=0.14, linewidth=0)
        axes.plot(shared, mean, color=style.colour, linestyle=style.dashes, marker=style.marker, zorder=3)
        ends.append((name_method(method), float(mean[-1])))
    axes.set_xlim(0.7, last + 0.3)
    if summary := find_summary(statistics, "tfidf", budget):
        level, style = summary["validation_accuracy"]["mean"], line_style("tfidf")
        axes.axhline(level, color=style.colour, linestyle=style.dashes, linewidth=1.6)
        ends.append((name_method("tfidf"), level))
    return ends


def _accuracy_limits(results: dict[str, Any], budgets: Sequence[str]) -> tuple[float, float]:
    heights = [
        epoch["accuracy"]
        for budget in budgets
        for curves in _curves(results, budget).values()
        for curve in curves
        for epoch in curve
    ]
    heights += [run["validation"]["accuracy"] for budget in budgets for run in select_runs(results, "tfidf", budget)]
    return _pad(heights)


def _pad(heights: Sequence[float]) -> tuple[float, float]:
    """Room above and below, but none where no accuracy can be."""
    low, high = min(heights), max(heights)
    room = max(0.06 * (high - low), 0.01)
    return max(low - room, -0.01), min(high + room, 1.01)


def _set_percent(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def _name_lines(axes: Axes, ends: list[tuple[str, float]], height: float) -> None:
    """The names of lines at their right ends, moved apart where they would touch."""
    low, high = axes.get_ylim()
    gap = (high - low) * FONT_SIZE * 1.25 / (72 * (height - 0.75))
    places = spread_apart([end for _, end in ends], gap)
    for (name, _), place in zip(ends, places, strict=True):
        weight = "bold" if name == name_method("pretrained") else "normal"
        axes.annotate(
            name, (1, place), (6, 0), ("axes fraction", "data"), "offset points",
            va="center_baseline", annotation_clip=False, weight=weight,
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
    flat = [mean for mean, size in groups for _ in range(size)]
    placed = dict(zip(order, flat, strict=True))
    return [placed[number] + order.index(number) * gap for number in range(len(heights))]


def _describe_epochs(results: dict[str, Any], budget: str) -> str:
    parts = []
    for method, curves in _curves(results, budget).items():
        epochs, mean, _ = _mean_curve(curves)
        parts.append(f"{name_method(method)} {percent(mean[0])} after epoch {epochs[0]}, at best {percent(mean.max())}")
    return f"Validation accuracy by epoch with {name_budget(results, budget)}: {'; '.join(parts)}."


def draw_budgets(results: dict[str, Any], statistics: dict[str, Any]) -> tuple[Figure, str] | None:
    """Test accuracy of every method by labels, on a logarithmic scale; as a row of dots where there is one budget."""
    budgets = [
        budget for budget in results["budgets"] if any(run["budget"] == budget for run in results["runs"])
    ]  # fmt: skip
    if not budgets:
        return None
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.add_subplot()
    if len(budgets) == 1:
        _draw_dots(axes, statistics, budgets[0])
        axes.set_xlabel(f"test accuracy with {name_budget(results, budgets[0])}")
    else:
        _draw_lines(axes, results, statistics, budgets)
    return figure, _describe_budgets(results, statistics, budgets)


def _draw_lines(axes: Axes, results: dict[str, Any], statistics: dict[str, Any], budgets: list[str]) -> None:
    labels = {budget: count_labels(results, budget) or 1 for budget in budgets}
    width = math.log(max(labels.values()) / min(labels.values())) or 1.0
    methods = shown_methods(statistics)
    ends, heights = [], []
    for number, method in enumerate(methods):
        found = [(budget, found) for budget in budgets if (found := find_summary(statistics, method, budget))]
        style = line_style(method)
        # A little to the side of each other, or the bars would hide one another.
        shift = math.exp(0.012 * width * (number - (len(methods) - 1) / 2))
        mean = [summary["test_accuracy"]["mean"] for _, summary in found]
        spread = [summary["test_accuracy"]["sd"] or 0 for _, summary in found]
        axes.errorbar(
            [labels[budget] * shift for budget, _ in found], mean, spread,
            color=style.colour, linestyle=style.dashes, marker=style.marker, elinewidth=1.3, capsize=2.5,
        )  # fmt: skip
        ends.append((name_method(method), mean[-1]))
        heights += [m + side * s for m, s in zip(mean, spread, strict=True) for side in (-1, 1)]
    axes.set_xscale("log")
    axes.set_xlim(min(labels.values()) * math.exp(-0.08 * width), max(labels.values()) * math.exp(0.06 * width))
    axes.set_ylim(*_pad(heights))
    _set_percent(axes)
    _mark_budgets(axes, labels, width)
    axes.set_xlabel("labels to learn from (logarithmic)")
    _name_lines(axes, ends, 3.4)


def _mark_budgets(axes: Axes, labels: dict[str, int], width: float) -> None:
    """A tick for each budget, named unless the next larger one stands too near."""
    ordered = sorted(labels.items(), key=lambda item: item[1])
    names = []
    for place, (budget, rows) in enumerate(ordered):
        is_crowded = place + 1 < len(ordered) and math.log(ordered[place + 1][1] / rows) < 0.13 * width
        names.append("" if is_crowded else f"all\n{rows:,}" if budget == "all" else f"{rows:,}")
    axes.xaxis.set_major_locator(FixedLocator([rows for _, rows in ordered]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(names)


def _draw_dots(axes: Axes, statistics: dict[str, Any], budget: str) -> None:
    found = [summary for summary in statistics["summaries"] if summary["budget"] == budget]
    for place, summary in enumerate(found):
        style, accuracy = line_style(summary["method"]), summary["test_accuracy"]
        axes.errorbar(
            accuracy["mean"], place, xerr=accuracy["sd"] or 0,
            color=style.colour, marker=style.marker, markersize=8, elinewidth=1.6, capsize=3,
        )  # fmt: skip
        words = percent(accuracy["mean"])
        axes.annotate(words, (accuracy["mean"], place), (0, 9), textcoords="offset points", ha="center")
    axes.set_ylim(-0.5, len(found) - 0.2)
    axes.set_yticks(range(len(found)), [name_method(summary["method"]) for summary in found], color=PAPER["ink"])
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def _describe_budgets(results: dict[str, Any], statistics: dict[str, Any], budgets: list[str]) -> str:
    parts = []
    for method in shown_methods(statistics):
        found = [(budget, found) for budget in budgets if (found := find_summary(statistics, method, budget))]
        scores = [f"{percent(s['test_accuracy']['mean'])} with {name_budget(results, b)}" for b, s in found]
        parts.append(f"{name_method(method)} {join(scores)}")
    return f"Test accuracy: {'; '.join(parts)}."


__all__ = ["draw_budgets", "draw_epochs", "spread_apart"]
