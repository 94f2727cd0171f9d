"""`report.md`: verdict, tables and figures in Markdown, fit for a model card."""

from __future__ import annotations

import itertools
import re
from typing import Any

from .figures import Drawing
from .tables import (
    Table,
    tabulate_accuracy,
    tabulate_data,
    tabulate_details,
    tabulate_differences,
    tabulate_epochs,
    tabulate_model,
    tabulate_settings,
    tabulate_times,
    tabulate_versions,
)
from .verdict import Verdict
from .words import one_line


def make_markdown(
    results: dict[str, Any], statistics: dict[str, Any], verdict: Verdict, drawings: list[Drawing]
) -> str:
    tables = [
        tabulate_accuracy(results, statistics),
        tabulate_differences(results, statistics),
        tabulate_epochs(results, statistics),
        tabulate_details(results, statistics),
    ]
    facts = [
        tabulate_model(results),
        tabulate_settings(results),
        tabulate_times(results),
        tabulate_versions(results),
    ]
    sections = [
        "# How much does pre-training help?",
        f"**{escape_markdown(verdict.headline)}**",
        "\n".join(f"- {escape_markdown(note)}" for note in [*verdict.warnings, *verdict.notes]),
        *map(_section, tables),
        *_figures(drawings),
        _data(results),
        *map(_section, facts),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _section(table: Table) -> str:
    if not table.rows:
        return ""
    rules = ["---:" if align == "r" else "---" for align in table.align]
    lines = [table.heads, *table.rows]
    head, *rows = ["| " + " | ".join(map(escape_markdown, line)) + " |" for line in lines]
    grid = "\n".join([head, f"| {' | '.join(rules)} |", *rows])
    note = f"\n\n{escape_markdown(table.note)}" if table.note else ""
    return f"## {table.title}\n\n{grid}{note}"


def _figures(drawings: list[Drawing]) -> list[str]:
    sections = []
    for title, group in itertools.groupby(drawings, lambda drawing: drawing.title):
        parts = list(group)
        images = [f"![{escape_markdown(part.description)}](figures/{part.name}.png)" for part in parts]
        sections.append("\n\n".join([f"## {title}", *images, escape_markdown(parts[0].reading)]))
    return sections


def _data(results: dict[str, Any]) -> str:
    description = results["data"].get("overlap", {}).get("description") or []
    if not description:
        return _section(tabulate_data(results))
    # Indented, it is shown as it is, whatever stands in it.
    lines = "\n".join(f"    {line}" for text in description for line in text.splitlines())
    return f"{_section(tabulate_data(results))}\n\nWhat the check of the data found:\n\n{lines}"


def escape_markdown(text: str) -> str:
    """Text from outside on one line, in which nothing is markup, a cell's end or HTML."""
    escaped = re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", one_line(text, 2_000))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


__all__ = ["escape_markdown", "make_markdown"]
