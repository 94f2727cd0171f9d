"""Predictions and explanations as HTML for the page. Whatever comes from a text or a model is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from greffe.inference import Prediction
from greffe.inference.explanation import Explanation
from greffe.inference.explanation_report import explanation_fragment

_SHOWN = 10  # labels that have a bar

# The colours are those of Gradio's theme, which knows the light and the dark.
STYLE = """
.gradio-container { max-width: 58rem !important; margin: 0 auto !important; }
.greffe-head h1 { font-size: 1.5rem; font-weight: 650; margin: 0; overflow-wrap: anywhere; }
.greffe-head p, .greffe-note { color: var(--body-text-color-subdued); margin: .15rem 0 0; font-size: .95rem; }
.greffe-result { display: grid; gap: .55rem; }
.greffe-answer { font-size: 1.6rem; font-weight: 650; line-height: 1.2; overflow-wrap: anywhere; }
.greffe-bar { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: .1rem .75rem; align-items: baseline; }
.greffe-bar b { font-weight: 500; overflow-wrap: anywhere; }
.greffe-bar span { font-variant-numeric: tabular-nums; color: var(--body-text-color-subdued); }
.greffe-bar i { grid-column: 1 / -1; height: .5rem; border-radius: .25rem; background: var(--border-color-primary); }
.greffe-bar i i { display: block; height: 100%; min-width: 2px; background: var(--color-accent); }
.greffe-why { display: grid; gap: .5rem; line-height: 1.75; }
.greffe-empty { color: var(--body-text-color-subdued); padding: 1rem 0; }
"""


def render_head(name: str, lines: Iterable[str]) -> str:
    return (
        f'<div class="greffe-head"><h1>{escape(name)}</h1>{"".join(f"<p>{escape(line)}</p>" for line in lines)}</div>'
    )


def render_note(text: str) -> str:
    return f'<div class="greffe-empty">{escape(text)}</div>'


def render_prediction(prediction: Prediction) -> str:
    """What the model says in large letters, and a bar for each of the most probable labels."""
    if prediction.value is not None:
        return f'<div class="greffe-result"><div class="greffe-answer">{prediction.value:.4g}</div></div>'
    answer = escape(", ".join(prediction.labels) or "none of the labels")
    bars = _bars((label, share, f"{share:.1%}") for label, share in prediction.top(_SHOWN))
    return f'<div class="greffe-result"><div class="greffe-answer">{answer}</div>{bars}</div>'


def render_counts(rows: int, counts: dict[str, int]) -> str:
    """How often each label was predicted in a file."""
    most = sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN]
    bars = _bars((label or "no label", number / max(rows, 1), f"{number:,}") for label, number in most)
    return f'<div class="greffe-result"><div class="greffe-answer">{rows:,} rows</div>{bars}</div>'


def render_explanation(explanation: Explanation) -> str:
    """The text with the weight of its parts in colours, and what the colours mean."""
    label = escape(explanation.label)
    return (
        f'<div class="greffe-why">{explanation_fragment(explanation)}<p class="greffe-note">Blue speaks for '
        f"<b>{label}</b>, orange against it; what the model did not see is pale.</p></div>"
    )


def _bars(rows: Iterable[tuple[str, float, str]]) -> str:
    return "".join(
        f'<div class="greffe-bar"><b>{escape(label)}</b><span>{escape(text)}</span>'
        f'<i><i style="width:{100 * share:.2f}%"></i></i></div>'
        for label, share, text in rows
    )


__all__ = ["STYLE", "render_counts", "render_explanation", "render_head", "render_note", "render_prediction"]
