"""Validation accuracy by epoch: the experiment's figure, from scratch against pre-trained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from .figure_axes import Sketch, name_lines, pad, set_percent
from .palette import WIDTH, line_style
from .results import select_runs
from .statistics import find_summary
from .words import name_budget, name_method, percent

_LARGE, _SMALL = 3.1, 1.9  # inches of height of the main panel, and of a row of small ones
_TRAINED = ("scratch", "frozen", "pretrained")
Curve = list[dict[str, Any]]


def draw_epochs(results: dict[str, Any], statistics: dict[str, Any]) -> list[Sketch]:
    """The largest budget in a large panel, the others in small ones below, all on the same scale."""
    budgets = [budget for budget in reversed(results["budgets"]) if _find_curves(results, budget)]
    if not budgets:
        return []
    figure, panels = _lay_out(len(budgets))
    limits = _find_limits(results, budgets)
    for axes, budget in zip(panels, budgets, strict=True):
        axes.set_ylim(*limits)
        axes.set_title(name_budget(results, budget))
        ends = _draw_panel(axes, results, statistics, budget)
        set_percent(axes.yaxis, 6 if axes is panels[0] else 4)
        if axes is panels[0]:
            axes.set_xlabel("epoch")
            name_lines(axes, ends, _LARGE)
    return [Sketch(figure, "Accuracy after each epoch", _explain(results), _describe(results, budgets[0]))]


def _lay_out(number: int) -> tuple[Figure, list[Axes]]:
    """A large panel, then rows of two. They are laid out apart: the names beside the large one take its room alone."""
    rows = math.ceil((number - 1) / 2)
    figure = Figure(figsize=(WIDTH, _LARGE + _SMALL * rows), layout="constrained")
    if not rows:
        return figure, [figure.add_subplot()]
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[_LARGE, _SMALL * rows])[:, 0]
    large = above.add_subplot()
    small = list(below.subplots(rows, min(2, number - 1), squeeze=False, sharey=True).flat)
    for unused in small[number - 1 :]:
        unused.remove()
    return figure, [large, *small[: number - 1]]


def _find_curves(results: dict[str, Any], budget: str) -> dict[str, list[Curve]]:
    """The epochs of each run, for each method that has epochs."""
    found = {
        method: [run["epochs"] for run in select_runs(results, method, budget) if run["epochs"]] for method in _TRAINED
    }
    return {method: curves for method, curves in found.items() if curves}


def mean_curve(curves: list[Curve]) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Epochs, mean and standard deviation as far as all runs went: beyond, the mean would be one of other runs."""
    shared = min(map(len, curves))
    accuracies = np.array([[epoch["accuracy"] for epoch in curve[:shared]] for curve in curves])  # (runs, epochs)
    spread = accuracies.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(shared)
    return [epoch["epoch"] for epoch in curves[0][:shared]], accuracies.mean(axis=0), spread


def _draw_panel(
    axes: Axes, results: dict[str, Any], statistics: dict[str, Any], budget: str
) -> list[tuple[str, float]]:
    """Draw one budget; returns the method and the last height of each line."""
    ends, last = [], 1
    for method, curves in _find_curves(results, budget).items():
        style = line_style(method)
        for curve in curves:
            epochs = [epoch["epoch"] for epoch in curve]
            axes.plot(epochs, [epoch["accuracy"] for epoch in curve], color=style.colour, linewidth=0.7, alpha=0.35)
            last = max(last, *epochs)
        shared, mean, spread = mean_curve(curves)
        axes.fill_between(shared, mean - spread, mean + spread, color=style.colour, alpha=0.14, linewidth=0)
        marker = style.marker if last <= 15 else ""
        axes.plot(shared, mean, color=style.colour, linestyle=style.dashes, marker=marker, zorder=3)
        ends.append((method, float(mean[-1])))
    axes.set_xlim(1 - 0.04 * last, last + 0.04 * last)
    axes.xaxis.set_major_locator(FixedLocator(choose_epochs(last)))
    if summary := find_summary(statistics, "tfidf", budget):
        level, style = summary["validation_accuracy"]["mean"], line_style("tfidf")
        axes.axhline(level, color=style.colour, linestyle=style.dashes, linewidth=1.6)
        ends.append(("tfidf", level))
    return ends


def choose_epochs(last: int) -> list[int]:
    """The epochs to name below a curve: the first, and not too many others."""
    if last <= 8:
        return list(range(1, last + 1))
    step = next(step for step in itertools.count(5, 5) if last <= 6 * step)
    return [1, *range(step, last + 1, step)]


def _find_limits(results: dict[str, Any], budgets: Sequence[str]) -> tuple[float, float]:
    heights = [
        epoch["accuracy"]
        for budget in budgets
        for curves in _find_curves(results, budget).values()
        for curve in curves
        for epoch in curve
    ]
    heights += [run["validation"]["accuracy"] for budget in budgets for run in select_runs(results, "tfidf", budget)]
    return pad(heights)


def _explain(results: dict[str, Any]) -> str:
    lines = "a line for the one seed"
    if len(results["seeds"]) > 1:
        lines = "a thin line for each seed, a thick one for their mean with its standard deviation as a band"
    level = ", dotted the level of TF-IDF" if "tfidf" in results["methods"] else ""
    return f"Validation accuracy, {lines}{level}; a curve that starts high and flattens early needed little training."


def _describe(results: dict[str, Any], budget: str) -> str:
    parts = []
    for method, curves in _find_curves(results, budget).items():
        epochs, mean, _ = mean_curve(curves)
        parts.append(f"{name_method(method)} {percent(mean[0])} after epoch {epochs[0]}, at best {percent(mean.max())}")
    return f"Validation accuracy by epoch with {name_budget(results, budget)}: {'; '.join(parts)}."


__all__ = ["choose_epochs", "draw_epochs", "mean_curve"]
