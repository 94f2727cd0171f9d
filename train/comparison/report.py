"""From results to files: JSON and CSV to compute with, Markdown for a card, a page and figures to look at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from greffe.tokenization.output_folder import sync

from .results import format_csv, format_json
from .statistics import get_statistics, summarise_runs
from .tables import tabulate_accuracy
from .verdict import format_verdict, judge


def write_report(results: dict[str, Any], folder: Path) -> list[Path]:
    """Write `results.json`, `results.csv`, `report.md`, `report.html` and `figures/`; returns the paths of all files.

    Each file is written aside and then renamed: a reader sees the old one or the new one. `statistics` are taken from
    the results if they are there (`compute_statistics`), or else computed.
    """
    from .figures import FIGURE_NAMES, draw_figures  # matplotlib is an extra, and slow to import
    from .markdown import make_markdown
    from .page import make_page

    statistics = get_statistics(results)
    verdict = judge(results, statistics)
    drawings = draw_figures(results, statistics)
    computed = {**results, "verdict": [verdict.headline, *verdict.warnings, *verdict.notes], "statistics": statistics}
    files: dict[str, str | bytes] = {
        "results.json": format_json(computed),
        "results.csv": format_csv(results),
        "report.md": make_markdown(results, statistics, verdict, drawings),
        "report.html": make_page(results, statistics, verdict, drawings),
    }
    for drawing in drawings:
        files[f"figures/{drawing.name}.png"] = drawing.png
        files[f"figures/{drawing.name}.svg"] = drawing.svg
    paths = [_write(folder / name, content) for name, content in files.items()]
    for name in FIGURE_NAMES:  # a figure of an earlier report that this one does not have
        for path in (folder / "figures" / f"{name}.png", folder / "figures" / f"{name}.svg"):
            if path not in paths:
                path.unlink(missing_ok=True)
    return paths


def summarise(results: dict[str, Any]) -> str:
    """The test accuracy of each method and budget, as a table for the terminal."""
    statistics = {"summaries": summarise_runs(results)}
    table = tabulate_accuracy(results, statistics)
    rows = [table.heads, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def _write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content if isinstance(content, bytes) else content.encode())
    sync(partial)
    os.replace(partial, path)
    return path


__all__ = ["format_verdict", "summarise", "write_report"]
