"""Confusion matrices: in one figure for two classes, or else each in its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .figure_axes import Sketch
from .palette import FONT_SIZE, PAPER, WIDTH
from .results import largest_budget, select_runs
from .words import name_budget, name_method, one_line, percent

SHOWN = ("scratch", "pretrained", "tfidf")
_MOST_WITH_COUNTS = 5  # classes whose cells have room for the number of texts too
_MOST_WITH_NUMBERS = 15  # classes whose cells have room for a number
_MOST_NAMED = 24  # classes whose columns have room for a name
_SMALL_TYPE = 8
_TITLE = "Which classes are taken for which"


def draw_confusion(results: dict[str, Any], statistics: dict[str, Any]) -> list[Sketch]:
    """Scratch, pre-trained and TF-IDF, each at its largest budget."""
    found = {}
    for method in SHOWN:
        if (budget := largest_budget(results, method)) is not None:
            matrix = mean_confusion(select_runs(results, method, budget))
            found[method] = matrix, f"{name_method(method)}, {name_budget(results, budget)}"
    if not found:
        return []
    if len(results["labels"]) <= 2:
        return [_draw_side_by_side(found, results)]
    return [_draw_alone(method, matrix, name, results) for method, (matrix, name) in found.items()]


def mean_confusion(runs: list[dict[str, Any]]) -> np.ndarray:
    """Rows are true classes; the mean number of texts over the runs."""
    return np.mean([run["test"]["confusion_matrix"] for run in runs], axis=0)


def share_of_class(matrix: np.ndarray) -> np.ndarray:
    """Each row over its sum; NaN for a class without texts."""
    totals = matrix.sum(axis=1, keepdims=True)
    return np.divide(matrix, totals, out=np.full(matrix.shape, np.nan), where=totals > 0)


def _draw_side_by_side(found: dict[str, tuple[np.ndarray, str]], results: dict[str, Any]) -> Sketch:
    figure = Figure(figsize=(WIDTH, 0.75 + 4.2 / max(len(found), 2)), layout="constrained")
    row = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (method, (matrix, _)) in zip(row, found.items(), strict=True):
        axes.set_title(name_method(method))
        _draw_matrix(axes, matrix, [one_line(label, 9) for label in results["labels"]])
        axes.set_aspect("equal")
        if axes is not row[0]:
            axes.tick_params(labelleft=False)
    row[0].set_ylabel("true")
    row[len(row) // 2].set_xlabel("predicted")
    parts = [_describe(matrix, name, results) for matrix, name in found.values()]
    return Sketch(figure, _TITLE, _explain("with the number of texts"), " ".join(parts))


def _draw_alone(method: str, matrix: np.ndarray, name: str, results: dict[str, Any]) -> Sketch:
    classes = len(results["labels"])
    row = 0.28 if classes <= _MOST_WITH_NUMBERS else 0.16  # inches
    figure = Figure(figsize=(WIDTH, 1.2 + max(row * classes, 2.2)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(name)
    _draw_matrix(axes, matrix, [one_line(label, 18) for label in results["labels"]])
    axes.set_ylabel("true")
    axes.set_xlabel("predicted" if classes <= _MOST_NAMED else "predicted, in the same order")
    numbers = "with the number of texts" if classes <= _MOST_WITH_COUNTS else "in per cent"
    return Sketch(figure, _TITLE, _explain(numbers), _describe(matrix, name, results), method)


def _draw_matrix(axes: Axes, matrix: np.ndarray, names: list[str]) -> None:
    classes, shares = len(names), share_of_class(matrix)
    for (true, predicted), share in np.ndenumerate(shares):
        opacity = 0.0 if np.isnan(share) else 0.06 + 0.94 * share
        cell = Rectangle((predicted, true), 1, 1, facecolor=(PAPER["fill"], opacity), edgecolor=PAPER["paper"])
        axes.add_patch(cell)
        if classes <= _MOST_WITH_NUMBERS:
            colour = PAPER["on-fill"] if opacity > 0.7 else PAPER["ink"]
            texts = float(matrix[true, predicted]) if classes <= _MOST_WITH_COUNTS else None
            _write_cell(axes, predicted + 0.5, true, share, texts, colour)
    for inside in (*axes.patches, *axes.texts):
        inside.set_in_layout(False)  # it needs no room around the axes, and asking each of them takes seconds
    middles = np.arange(classes) + 0.5
    axes.set(xlim=(0, classes), ylim=(classes, 0))
    is_long = max(map(len, names)) * classes > (14 if classes <= 2 else 36)
    turned: dict[str, Any] = {"rotation": 40 if classes <= 5 else 90, "ha": "right" if classes <= 5 else "center"}
    axes.set_xticks(middles, names if classes <= _MOST_NAMED else [""] * classes, **(turned if is_long else {}))
    axes.set_yticks(middles, names)
    size = FONT_SIZE if classes <= 8 else max(_SMALL_TYPE, FONT_SIZE - 0.2 * (classes - 8))
    axes.tick_params(length=0, labelcolor=PAPER["ink"], labelsize=size)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _write_cell(axes: Axes, x: float, row: int, share: float, texts: float | None, colour: str) -> None:
    """The share, and the number of texts below it where there is room."""
    if np.isnan(share):
        axes.text(x, row + 0.5, "–", ha="center", va="center", color=colour)
    elif texts is None:
        axes.text(x, row + 0.5, f"{100 * share:.0f}", ha="center", va="center", color=colour, fontsize=_SMALL_TYPE)
    else:
        axes.text(x, row + 0.42, f"{100 * share:.0f} %", ha="center", va="center", color=colour)
        axes.text(x, row + 0.7, f"{texts:,.0f}", ha="center", va="center", color=colour, fontsize=_SMALL_TYPE)


def _explain(numbers: str) -> str:
    return (
        "Each row is a true class, and its cells are the shares of its texts that were given each label, mean over "
        f"seeds, {numbers}; a good model has its colour on the diagonal."
    )


def _describe(matrix: np.ndarray, name: str, results: dict[str, Any]) -> str:
    rights = [
        f"{percent(share)} of {one_line(label, 40)}"
        for label, share in zip(results["labels"], np.diag(share_of_class(matrix)), strict=True)
        if not np.isnan(share)
    ]
    return f"Confusion matrix, {name}: has right {', '.join(rights)}."


__all__ = ["SHOWN", "draw_confusion", "mean_confusion", "share_of_class"]
