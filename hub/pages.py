"""The hub in a browser: models, their revisions and their cards, as pages that need nothing but themselves."""

from __future__ import annotations

import re
from contextlib import suppress
from html import escape
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response

from .cards import CARD, read_metadata
from .repository import Repository
from .revisions import Revision
from .store import LocalHub

LONGEST_CARD = 200_000  # characters that are shown
# No script runs and nothing is fetched, whatever a card contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; frame-ancestors 'none'"

_STYLE = """
:root { color-scheme: light dark; --text: #1d2330; --soft: #5d6675; --line: #dfe3ea; --back: #ffffff; --panel: #f6f7f9;
  --accent: #1f6f43; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ec; --soft: #9aa3b2; --line: #2e3440; --back: #14171c;
  --panel: #1c2027; --accent: #6fcf97; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
header, main { max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem; }
header { border-bottom: 1px solid var(--line); color: var(--soft); }
header a { font-weight: 600; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
h1 { font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; margin: 1rem 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .875rem; }
th, td { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th:last-child, td:last-child { padding-right: 0; } .number + .wide { padding-left: 1rem; }
td { overflow-wrap: anywhere; } td.short { white-space: nowrap; }
code, pre { font: .875em/1.5 ui-monospace, monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  overflow-x: auto; }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 1rem; padding: 0 .6rem; font-size: .8rem;
  color: var(--soft); margin: 0 .25rem .25rem 0; }
.soft { color: var(--soft); } .scroll { overflow-x: auto; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .25rem 1.25rem 1rem; }
.card h1 { font-size: 1.35rem; } .card img { max-width: 100%; }
@media (max-width: 40rem) { .wide { display: none; } .card { padding: 0 .9rem .75rem; } }
"""


def index_page(hub: LocalHub, address: str) -> Response:
    """Every model, the one that changed last first."""
    found = []
    for name in hub.list():
        with suppress(ValueError, OSError):  # damaged or deleted meanwhile: the others are still there
            found.append((name, hub.repository(name), hub.show(name)))
    newest = sorted(found, key=_date, reverse=True)
    rows = "".join(
        f'<tr><td><a href="/{quote(name)}">{escape(name)}</a><div>{_tags(repository, revision)}</div></td>'
        f'<td class="short">{_day(revision)}</td><td class="wide">{_references(repository)}</td>'
        f'<td class="number">{_size(revision.size)}</td></tr>'
        for name, repository, revision in newest
    )
    heads = '<th>model</th><th>changed</th><th class="wide">tags</th><th class="number">size</th>'
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    count = f"{len(newest)} model{'' if len(newest) == 1 else 's'}"
    empty = "<p>No models yet. <code>greffe hub push DIR organisation/name</code> adds the first.</p>"
    use = f"export HF_ENDPOINT={address} HF_HUB_OFFLINE=0"
    return _page(
        "Local hub",
        f'<h1>Local hub</h1><p class="soft">{count}. Load them by name after</p><pre>{escape(use)}</pre>'
        + (table if newest else empty),
    )


def model_page(repository: Repository, revision_name: str) -> Response:
    """One revision of a model: its card, its files, and the other revisions."""
    revision = repository.revision(revision_name)
    name = repository.repo_id
    load = f'<pre>from_pretrained("{escape(name)}", revision="{escape(revision_name)}")</pre>'
    body = (
        f"<h1>{escape(name)}</h1>"
        f'<p class="soft">Revision <code>{revision.id[:12]}</code> of {_day(revision)}: {escape(revision.title)}</p>'
        f"<p>{_tags(repository, revision)}</p>{load if revision_name != 'main' else ''}"
        f"{_card(repository, revision)}<h2>Files</h2>{_files(name, revision)}"
        f"<h2>Revisions</h2>{_history(repository, revision)}"
    )
    return _page(name, body)


def _card(repository: Repository, revision: Revision) -> str:
    from markdown_it import MarkdownIt

    card = revision.files.get(CARD)
    if card is None:
        return '<p class="soft">This revision has no card.</p>'
    with open(repository.blob(card), encoding="utf-8", errors="replace") as stream:
        text = stream.read(LONGEST_CARD)
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    # HTML in a card is shown as text, and links can only lead to http, https and mailto.
    return f'<article class="card">{MarkdownIt("js-default", {"linkify": False}).render(text)}</article>'


def _files(name: str, revision: Revision) -> str:
    rows = "".join(
        f'<tr><td><a href="/{quote(name)}/resolve/{revision.id}/{quote(path)}">{escape(path)}</a></td>'
        f'<td class="number">{_size(file.size)}</td><td class="wide"><code>{file.sha256[:16]}</code></td></tr>'
        for path, file in revision.files.items()
    )
    heads = '<th>file</th><th class="number">size</th><th class="wide">SHA-256</th>'
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _history(repository: Repository, shown: Revision) -> str:
    names: dict[str, list[str]] = {}
    for reference, commit in repository.references().items():
        names.setdefault(commit, []).append(reference)
    revisions = [*repository.history()]
    if shown.id not in {revision.id for revision in revisions}:
        revisions.insert(0, shown)
    rows = "".join(
        f'<tr><td class="short"><a href="/{quote(repository.repo_id)}/tree/{revision.id}">'
        f"<code>{revision.id[:12]}</code></a></td>"
        f"<td>{escape(revision.title)} {_labels(names.get(revision.id, []))}</td>"
        f'<td class="short">{_day(revision)}</td><td class="number wide">{_size(revision.size)}</td></tr>'
        for revision in revisions
    )
    heads = '<th>revision</th><th>message</th><th>date</th><th class="number wide">size</th>'
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _tags(repository: Repository, revision: Revision) -> str:
    card = revision.files.get(CARD)
    metadata = read_metadata(repository.blob(card)) if card else {}
    values = [metadata.get("pipeline_tag"), metadata.get("language"), metadata.get("base_model")]
    return _labels([value for value in values if isinstance(value, str)])


def _references(repository: Repository) -> str:
    return _labels([*repository.tags()])


def _labels(names: list[str]) -> str:
    return "".join(f'<span class="tag">{escape(name)}</span>' for name in names)


def _page(title: str, body: str) -> Response:
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f'<body><header><a href="/">greffe hub</a></header><main>{body}</main></body></html>'
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"})


def _date(entry: tuple[str, Repository, Revision]) -> str:
    return entry[2].date


def _day(revision: Revision) -> str:
    return f'<time datetime="{escape(revision.date)}">{escape(revision.date[:16].replace("T", " "))}</time>'


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


__all__ = ["index_page", "model_page"]
