"""An evaluation for people to read: in a terminal, as Markdown, and as a reliability plot."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from greffe.tokenization.output_folder import write_folder

from .evaluation import Evaluation

# Characters of a text that a terminal line shows.
_SHOWN = 100
_PLOT = "reliability.png"


def format_evaluation(evaluation: Evaluation) -> str:
    """The figures and the worst mistakes, as lines of text."""
    lines = [f"{evaluation.rows:,} texts of {evaluation.data}", ""]
    width = max(map(len, evaluation.intervals))
    for name, (low, high) in evaluation.intervals.items():
        lines.append(f"{name:<{width}}  {evaluation.metrics[name]:.4f}  [{low:.4f}, {high:.4f}]")
    lines[1:1] = [f"with {evaluation.confidence:.0%} confidence intervals (bootstrap over the texts)"]
    if evaluation.calibration is not None:
        lines += ["", f"expected calibration error  {evaluation.calibration.expected_error:.4f}"]
    if evaluation.mistakes:
        lines += ["", "worst mistakes"]
    for mistake in evaluation.mistakes:
        lines.append(f"{mistake.error:.3f}  {mistake.predicted}, expected {mistake.expected}; {mistake.place}")
        lines.append(f"       {shorten(mistake.text)}")
    return "\n".join(lines)


def shorten(text: str, length: int = _SHOWN) -> str:
    """The beginning of a text in one line that a terminal shows as it is."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", " ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"


def write_evaluation(evaluation: Evaluation, folder: str | Path) -> None:
    """`evaluation.json`, `evaluation.md` and, for a classifier, the plot, in a new or empty folder."""

    def write(place: Path) -> None:
        content = json.dumps(evaluation.to_dict(), indent=1, ensure_ascii=False)
        (place / "evaluation.json").write_text(content + "\n", encoding="utf-8")
        (place / "evaluation.md").write_text(to_markdown(evaluation), encoding="utf-8")
        if evaluation.calibration is not None:
            draw_reliability(evaluation.calibration, place / _PLOT)

    write_folder(folder, write)


def to_markdown(evaluation: Evaluation) -> str:
    """The same as a page: figures, scores of each class, the plot, the worst mistakes in full."""
    lines = [f"# {evaluation.model}", "", f"{evaluation.rows:,} texts of `{evaluation.data}`", ""]
    lines += [f"| metric | value | {evaluation.confidence:.0%} interval |", "|---|---|---|"]
    for name, (low, high) in evaluation.intervals.items():
        lines.append(f"| {name} | {evaluation.metrics[name]:.4f} | {low:.4f} to {high:.4f} |")
    if per_class := evaluation.metrics.get("per_class"):
        lines += ["", "| class | precision | recall | f1 | rows |", "|---|---|---|---|---|"]
        for name, scores in per_class.items():
            figures = " | ".join(f"{scores[score]:.4f}" for score in ("precision", "recall", "f1"))
            lines.append(f"| {_cell(name)} | {figures} | {scores['rows']:,} |")
    if evaluation.calibration is not None:
        error = evaluation.calibration.expected_error
        lines += ["", f"Expected calibration error: {error:.4f}", "", f"![Reliability]({_PLOT})"]
    if evaluation.mistakes:
        lines += [
            "",
            "## Worst mistakes",
            "",
            "| error | predicted | expected | where | text |",
            "|---|---|---|---|---|",
        ]
    for mistake in evaluation.mistakes:
        words = (mistake.predicted, mistake.expected, mistake.place, mistake.text)
        lines.append(f"| {mistake.error:.3f} | " + " | ".join(map(_cell, words)) + " |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    """A text as one cell of a table, with nothing in it taken as Markdown or HTML."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)


def draw_reliability(calibration: Any, path: Path) -> None:
    """Accuracy against confidence, bin by bin, over how many decisions each bin holds."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"the reliability plot needs {error.name}, which is not installed: pip install greffe[compare]"
        ) from error
    bins = len(calibration.counts)
    middles = [(index + 0.5) / bins for index in range(bins)]
    figure = Figure(figsize=(4.5, 5.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    filled = [index for index in range(bins) if calibration.counts[index]]
    upper.bar(
        [middles[index] for index in filled],
        [calibration.accuracies[index] for index in filled],
        width=0.9 / bins,
        color="#4c78a8",
        label="share that was right",
    )
    upper.plot(
        [calibration.confidences[index] for index in filled],
        [calibration.confidences[index] for index in filled],
        "o",
        markersize=3,
        color="#e45756",
        label="mean probability",
    )
    upper.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle="--")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that was right")
    upper.set_title(f"expected calibration error {calibration.expected_error:.3f}")
    upper.legend(loc="upper left", frameon=False)
    lower.bar(middles, calibration.counts, width=0.9 / bins, color="#bbbbbb")
    lower.set(xlabel="probability", ylabel="decisions")
    figure.savefig(path, dpi=150)


__all__ = ["draw_reliability", "format_evaluation", "shorten", "to_markdown", "write_evaluation"]
