"""Accuracy against minutes of pre-training, from comparisons of models that were pre-trained for longer and longer.

    $ python -m benchmarks.minutes comparison-20 comparison-60 --output docs/accuracy-by-minutes

Each argument is a folder that `greffe compare` has left, of the same labelled files. What no pre-training can change,
TF-IDF and training from scratch, is drawn as a line across where the comparisons have it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from greffe.train.comparison.figure_axes import pad, set_percent
from greffe.train.comparison.palette import SETTINGS, line_style
from greffe.train.comparison.statistics import find_summary, get_statistics
from greffe.train.comparison.words import name_budget, name_method
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

_ACROSS = ("tfidf", "scratch")


def read_comparisons(folders: list[str]) -> list[dict[str, Any]]:
    """The results of each folder, from the shortest pre-training to the longest, all on one test set."""
    found = [json.loads((Path(folder) / "results.json").read_text(encoding="utf-8")) for folder in folders]
    for folder, results in zip(folders, found, strict=True):
        if not results["model"]["pretraining"]:
            raise ValueError(f"expected a model that `greffe pretrain` has made in {folder}, found no record of it")
        if results["data"]["test"]["sha256"] != found[0]["data"]["test"]["sha256"]:
            raise ValueError(f"expected the test file of {folders[0]} in {folder}, found another")
    return sorted(found, key=minutes_of)


def minutes_of(results: dict[str, Any]) -> float:
    return float(results["model"]["pretraining"]["seconds"]) / 60


def find_score(results: dict[str, Any], method: str, budget: str) -> dict[str, Any] | None:
    """Mean and standard deviation of the test accuracy, where there are runs of it."""
    found = find_summary(get_statistics(results), method, budget)
    return None if found is None else found["test_accuracy"]


def draw_minutes(comparisons: list[dict[str, Any]]) -> Figure:
    """A panel for each number of labels, on one scale."""
    budgets = comparisons[0]["budgets"]
    figure = Figure(figsize=(2.4 * len(budgets) + 0.6, 2.9), layout="constrained")
    panels = figure.subplots(1, len(budgets), sharey=True, squeeze=False)[0]
    heights = [
        height for axes, budget in zip(panels, budgets, strict=True) for height in _draw(axes, comparisons, budget)
    ]
    panels[0].set_ylim(*pad(heights))
    set_percent(panels[0].yaxis)
    panels[len(budgets) // 2].set_xlabel("minutes of pre-training (logarithmic)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw(axes: Axes, comparisons: list[dict[str, Any]], budget: str) -> list[float]:
    """The panel of one number of labels; returns the heights that it must have room for."""
    points = {
        minutes_of(results): score for results in comparisons if (score := find_score(results, "pretrained", budget))
    }
    mean, spread = [score["mean"] for score in points.values()], [score["sd"] or 0 for score in points.values()]
    style = line_style("pretrained")
    axes.errorbar(
        list(points), mean, spread,
        color=style.colour, linestyle=style.dashes, marker=style.marker, capsize=2.5, label=name_method("pretrained"),
    )  # fmt: skip
    heights = [middle + side * sd for middle, sd in zip(mean, spread, strict=True) for side in (-1, 1)]
    for method in _ACROSS:
        found = [
            summary for results in comparisons if (summary := find_summary(get_statistics(results), method, budget))
        ]
        if found:
            height, style = found[-1]["test_accuracy"]["mean"], line_style(method)
            axes.axhline(height, color=style.colour, linestyle=style.dashes, label=name_method(method))
            heights.append(height)
    axes.set_title(name_budget(comparisons[0], budget))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(points)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{minutes:.0f}" for minutes in points])
    axes.margins(x=0.12)
    return heights


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minutes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("comparisons", nargs="+", metavar="FOLDER", help="what `greffe compare` has left")
    parser.add_argument("--output", required=True, metavar="NAME", help="where NAME.png and NAME.svg are written")
    options = parser.parse_args(argv)
    with rc_context(SETTINGS):
        figure = draw_minutes(read_comparisons(options.comparisons))
        for kind in ("png", "svg"):
            path = Path(f"{options.output}.{kind}")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(
                path, dpi=200, metadata={"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
            )
            print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
