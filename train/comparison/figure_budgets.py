"""Test accuracy by number of labels, with the baselines."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .figure_axes import Sketch, grid_across, name_lines, pad, set_percent
from .palette import PAPER, WIDTH, line_style
from .statistics import find_summary
from .tables import explain_choices, shown_methods
from .words import count_labels, join, name_budget, name_method, percent

_HEIGHT = 3.4


def draw_budgets(results: dict[str, Any], statistics: dict[str, Any]) -> list[Sketch]:
    """A line for each method on a logarithmic scale of labels, or a dot for each where there is one budget."""
    finished = {run["budget"] for run in results["runs"]}
    budgets = [budget for budget in results["budgets"] if budget in finished]
    if not budgets:
        return []
    figure = Figure(figsize=(WIDTH, _HEIGHT if len(budgets) > 1 else 2.6), layout="constrained")
    axes = figure.add_subplot()
    if len(budgets) == 1:
        _draw_dots(axes, statistics, budgets[0])
        title, hint = f"Accuracy with {name_budget(results, budgets[0])}", "further right is better"
    else:
        _draw_lines(axes, results, statistics, budgets)
        title, hint = "Accuracy by number of labels", "a line further left at the same height needs fewer labels"
    spread = " of one seed" if len(results["seeds"]) == 1 else ", mean over seeds with the standard deviation as bars"
    reading = f"Test accuracy{spread}; {hint}. {explain_choices(results)}"
    return [Sketch(figure, title, reading, _describe(results, statistics, budgets))]


def _draw_lines(axes: Axes, results: dict[str, Any], statistics: dict[str, Any], budgets: list[str]) -> None:
    labels = {budget: count_labels(results, budget) or 1 for budget in budgets}
    width = math.log(max(labels.values()) / min(labels.values())) or 1.0
    methods = shown_methods(statistics)
    ends, heights = [], []
    for number, method in enumerate(methods):
        found = [(labels[budget], found) for budget in budgets if (found := find_summary(statistics, method, budget))]
        style = line_style(method)
        # A little to the side of each other, or the bars would hide one another.
        shift = math.exp(0.012 * width * (number - (len(methods) - 1) / 2))
        mean = [summary["test_accuracy"]["mean"] for _, summary in found]
        spread = [summary["test_accuracy"]["sd"] or 0 for _, summary in found]
        axes.errorbar(
            [rows * shift for rows, _ in found], mean, spread,
            color=style.colour, linestyle=style.dashes, marker=style.marker, elinewidth=1.3, capsize=2.5,
        )  # fmt: skip
        ends.append((method, mean[-1]))
        heights += [middle + side * sd for middle, sd in zip(mean, spread, strict=True) for side in (-1, 1)]
    axes.set_xscale("log")
    axes.set_xlim(min(labels.values()) * math.exp(-0.08 * width), max(labels.values()) * math.exp(0.06 * width))
    axes.set_ylim(*pad(heights))
    axes.set_xlabel("labels to learn from (logarithmic)")
    set_percent(axes.yaxis)
    _mark_budgets(axes, labels, width)
    name_lines(axes, ends, _HEIGHT)


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
        axes.annotate(
            percent(accuracy["mean"]), (1, place), (6, 0), ("axes fraction", "data"), "offset points",
            va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_ylim(-0.5, len(found) - 0.5)
    axes.set_yticks(range(len(found)), [name_method(summary["method"]) for summary in found], color=PAPER["ink"])
    axes.margins(x=0.08)
    grid_across(axes)
    set_percent(axes.xaxis, 5)


def _describe(results: dict[str, Any], statistics: dict[str, Any], budgets: list[str]) -> str:
    parts = []
    for method in shown_methods(statistics):
        found = [(budget, found) for budget in budgets if (found := find_summary(statistics, method, budget))]
        scores = [f"{percent(s['test_accuracy']['mean'])} with {name_budget(results, b)}" for b, s in found]
        parts.append(f"{name_method(method)} {join(scores)}")
    return f"Test accuracy: {'; '.join(parts)}."


__all__ = ["draw_budgets"]
