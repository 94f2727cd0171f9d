"""Predictions and explanations as HTML for the page. Whatever comes from a text or a model is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from greffe.inference import Prediction
from greffe.inference.explanation import Explanation
from greffe.inference.explanation_report import explanation_fragment

_SHOWN = 10  # labels that have a bar

# The colours are those of Gradio's theme, which knows the light and the dark; !important where it has its own.
STYLE = """
.gradio-container { width: 100% !important; max-width: 60rem !important; margin: 0 auto !important; }
.gradio-container .html-container { padding: 0 !important; }
@media (max-width: 40rem) { .gradio-container .main.fillable { padding: .75rem !important; } }
.greffe-head h1 { font-size: 1.5rem; font-weight: 650; margin: 0 !important; overflow-wrap: anywhere; }
.greffe-head p { color: var(--body-text-color-subdued) !important; margin: .15rem 0 0 !important; }
.greffe-title { color: var(--block-title-text-color) !important; margin-bottom: .5rem; }
.greffe-result { display: grid; gap: .55rem; }
.greffe-answer { font-size: 1.6rem; font-weight: 650; line-height: 1.2; overflow-wrap: anywhere; }
.greffe-bar { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: .1rem .75rem; align-items: baseline; }
.greffe-bar b { font-weight: 500; overflow-wrap: anywhere; }
.greffe-bar span { font-variant-numeric: tabular-nums; color: var(--body-text-color-subdued) !important; }
.greffe-bar i { grid-column: 1 / -1; height: .5rem; border-radius: .25rem; background: var(--border-color-primary); }
.greffe-bar i i { display: block; height: 100%; min-width: 2px; background: var(--color-accent); }
.greffe-why { line-height: 1.75; }
.greffe-note { color: var(--body-text-color-subdued) !important; font-size: .85rem; line-height: 1.45; }
.greffe-why + .greffe-note { margin-top: .6rem; }
"""


def render_head(name: str, text: str) -> str:
    return f'<div class="greffe-head"><h1>{escape(name)}</h1><p>{escape(text)}</p></div>'


def render_empty(title: str, text: str = "The answer appears here.") -> str:
    return _part(title, f'<div class="greffe-note">{escape(text)}</div>')


def render_prediction(title: str, prediction: Prediction) -> str:
    """What the model says in large letters, and a bar for each of the most probable labels."""
    if prediction.value is not None:
        return _part(title, _answer(f"{prediction.value:.4g}", []))
    bars = [(label, share, f"{share:.1%}") for label, share in prediction.top(_SHOWN)]
    return _part(title, _answer(", ".join(prediction.labels) or "none of the labels", bars))


def render_counts(title: str, rows: int, counts: dict[str, int]) -> str:
    """How often each label was predicted in a file."""
    most = sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN]
    bars = [(label or "none", number / max(rows, 1), f"{number:,}") for label, number in most]
    return _part(title, _answer(f"{rows:,} rows", bars))


def render_explanation(title: str, explanation: Explanation) -> str:
    """The text with the weight of its parts in colours, and what the colours mean."""
    note = f"Blue speaks for <b>{escape(explanation.label)}</b>, orange against it; what the model did not see is pale."
    text = f'<div class="greffe-why">{explanation_fragment(explanation)}</div>'
    return _part(title, f'{text}<div class="greffe-note">{note}</div>')


def _part(title: str, content: str) -> str:
    return f'<div class="greffe-title">{escape(title)}</div>{content}'


def _answer(answer: str, bars: Iterable[tuple[str, float, str]]) -> str:
    shown = "".join(
        f'<div class="greffe-bar"><b>{escape(label)}</b><span>{escape(text)}</span>'
        f'<i><i style="width:{100 * share:.2f}%"></i></i></div>'
        for label, share, text in bars
    )
    return f'<div class="greffe-result"><div class="greffe-answer">{escape(answer)}</div>{shown}</div>'


__all__ = ["STYLE", "render_counts", "render_empty", "render_explanation", "render_head", "render_prediction"]
