"""`report.html`: the comparison on one page that needs nothing but itself, to be looked at rather than read.

All text from outside, of labels, files and reviews, is escaped; should some slip through, the page's policy lets no
script run and nothing be fetched.
"""

from __future__ import annotations

import itertools
import re
from html import escape
from typing import Any

from .figures import Drawing
from .inline_svg import inline_svg
from .page_style import STYLE
from .results import largest_budget
from .statistics import find_difference, find_summary
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
from .words import count, interval, name_budget, name_method, percent, signed_points
from .wrong_texts import WrongText, find_wrong_texts

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_TITLE = "How much does pre-training help?"


def make_page(results: dict[str, Any], statistics: dict[str, Any], verdict: Verdict, drawings: list[Drawing]) -> str:
    body = "".join(
        [
            f"<h1>{_TITLE}</h1>",
            _verdict(verdict),
            _key_numbers(results, statistics),
            _figures([drawing for drawing in drawings if drawing.name != "parameters"]),
            _section(tabulate_accuracy(results, statistics), strong=name_method("pretrained")),
            _section(tabulate_epochs(results, statistics)),
            _section(tabulate_differences(results, statistics)),
            _section(tabulate_details(results, statistics)),
            _wrong_texts(results),
            _pair(
                "".join(_figure([drawing]) for drawing in drawings if drawing.name == "parameters"),
                _section(tabulate_model(results)),
            ),
            _data(results),
            _pair(_section(tabulate_times(results)), _section(tabulate_versions(results))),
            _section(tabulate_settings(results)),
            _footer(results),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(verdict.headline)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _verdict(verdict: Verdict) -> str:
    notes = "".join(f"<li>{_prose(note)}</li>" for note in verdict.notes)
    warnings = "".join(f'<li class="warning">{_prose(warning)}</li>' for warning in verdict.warnings)
    return f'<p class="verdict">{_prose(verdict.headline)}</p><ul class="notes">{warnings}{notes}</ul>'


def _prose(text: str) -> str:
    """Escaped, and with figures that no line break parts from their sign or unit."""
    words = escape(text).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u00a0%")
    words = words.replace("TF-IDF", '<span class="whole">TF-IDF</span>')
    return re.sub(r"(?<=\d) (?=points?\b|labels?\b|seeds?\b)", "\u00a0", words)


def _key_numbers(results: dict[str, Any], statistics: dict[str, Any]) -> str:
    """The figures of the largest budget of the pre-trained model, as large as they matter."""
    budget = largest_budget(results, "pretrained")
    if budget is None:
        return ""
    cards = []
    for method in ("pretrained", "scratch", "tfidf"):
        if summary := find_summary(statistics, method, budget):
            accuracy = summary["test_accuracy"]
            spread = "" if accuracy["sd"] is None else f" <small>± {100 * accuracy['sd']:.1f}</small>"
            more = f"of the test texts right, {name_budget(results, budget)}"
            cards.append(_card(method, name_method(method), percent(accuracy["mean"]) + spread, more))
    if difference := find_difference(statistics, "scratch", budget):
        value = f"{signed_points(difference['mean'])} <small>points</small>"
        covered = f"95 % interval {interval(difference['low'], difference['high'])}"
        cards.append(_card("ink", "pre-trained minus scratch", value, covered))
    return f'<dl class="key">{"".join(cards)}{_epoch_card(statistics, budget)}</dl>'


def _epoch_card(statistics: dict[str, Any], budget: str) -> str:
    grafted, scratch = (find_summary(statistics, method, budget) for method in ("pretrained", "scratch"))
    if not grafted or not scratch or not grafted["epochs_to_95"] or not scratch["epochs_to_95"]:
        return ""
    first, second = (f"{round(summary['epochs_to_95']['mean'], 1):g}" for summary in (grafted, scratch))
    value = f"{first} <small>against</small> {second}"
    return _card("ink", "epochs to 95 % of the best", value, "pre-trained against scratch")


def _card(role: str, name: str, value: str, more: str) -> str:
    return (
        f'<div style="--colour: var(--{role})"><dt>{_prose(name)}</dt><dd>{value}</dd>'
        f'<dd class="more">{_prose(more)}</dd></div>'
    )


def _figures(drawings: list[Drawing]) -> str:
    """In two columns; those that are several under one title in a row below."""
    groups = [list(group) for _, group in itertools.groupby(drawings, lambda drawing: drawing.title)]
    single = "".join(_figure(group) for group in groups if len(group) == 1)
    several = "".join(_figure(group) for group in groups if len(group) > 1)
    return f'<div class="figures">{single}</div>{several}'


def _figure(drawings: list[Drawing]) -> str:
    first = drawings[0]
    parts = "".join(inline_svg(drawing.svg, drawing.name, drawing.description) for drawing in drawings)
    caption = f"<figcaption><h2>{escape(first.title)}</h2><p>{_prose(first.reading)}</p></figcaption>"
    return f'<figure>{caption}<div class="parts">{parts}</div></figure>'


def _section(table: Table, strong: str | None = None, more: str = "") -> str:
    if not table.rows:
        return ""
    note = f'<p class="reading">{_prose(table.note)}</p>' if table.note else ""
    return f"<section><h2>{escape(table.title)}</h2>{note}{_table(table, strong)}{more}</section>"


def _pair(first: str, second: str) -> str:
    return f'<div class="pair">{first}{second}</div>'


def _table(table: Table, strong: str | None = None) -> str:
    kinds = [' class="number"' if align == "r" else "" for align in table.align]
    heads = "".join(f'<th scope="col"{kind}>{escape(head)}</th>' for head, kind in zip(table.heads, kinds, strict=True))
    rows = "".join(
        ('<tr class="strong">' if row[0] == strong else "<tr>")
        + "".join(_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows
    )
    # Focusable, so that the keyboard can scroll it.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(text: str, kind: str) -> str:
    if len(text) == 64 and all(letter in "0123456789abcdef" for letter in text):
        return f'<td class="long"><code>{text}</code></td>'
    return f"<td{' class=long' if len(text) > 34 else kind}>{escape(text)}</td>"


def _wrong_texts(results: dict[str, Any]) -> str:
    budget = largest_budget(results, "pretrained")
    if budget is None:
        return ""
    wrong = find_wrong_texts(results)
    title = "<h2>Most confidently wrong</h2>"
    source = f"pre-trained model with {name_budget(results, budget)}"
    if not wrong:
        return f'<section>{title}<p class="reading">None: the {source} has every test text right.</p></section>'
    reading = (
        f"Test texts that the {source} gets wrong with the highest probability, mean over seeds. Some may be mistakes "
        "of the labels."
    )
    items = "".join(map(_wrong_text, wrong))
    return f'<section>{title}<p class="reading">{_prose(reading)}</p><ol class="wrong">{items}</ol></section>'


def _wrong_text(wrong: WrongText) -> str:
    return (
        f"<li><blockquote>{escape(wrong.text)}</blockquote><p>predicted <b>{escape(wrong.predicted)}</b> with "
        f"{percent(wrong.probability)}, labelled <b>{escape(wrong.true)}</b></p></li>"
    )


def _data(results: dict[str, Any]) -> str:
    description = results["data"].get("overlap", {}).get("description") or []
    found = f"<pre>{escape(chr(10).join(description))}</pre>" if description else ""
    return _section(tabulate_data(results), more=found)


def _footer(results: dict[str, Any]) -> str:
    runs, version = count(len(results["runs"]), "run"), results["versions"].get("greffe", "")
    made = f"Made by greffe {escape(str(version))} from {runs}."
    return f"<footer>{made} The numbers behind this page are in results.json and results.csv.</footer>"


__all__ = ["make_page"]
