"""The page of a classifier: try a text, compare two models on it, predict a file."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import gradio as gr

from .batching import Batcher
from .limits import Limits
from .page_errors import check_text, shown
from .rendering import render_counts, render_empty, render_explanation, render_prediction
from .table_job import Progress, predict_table, read_columns

_PRIVATE: dict[str, Any] = {"api_visibility": "private"}  # programs have an API of their own
_PREDICTION, _WHY, _FILE = "Prediction", "Why", "Predictions"


def add_classifier_tabs(names: list[str], batchers: list[Batcher], limits: Limits) -> None:
    with gr.Tab("Try a text", id="try"):
        _add_try(batchers[0], limits)
    if len(batchers) > 1:
        with gr.Tab("Compare", id="compare"):
            _add_compare(names, batchers, limits)
    with gr.Tab("Predict a file", id="file"):
        _add_file(batchers[0], limits)


def _add_try(batcher: Batcher, limits: Limits) -> None:
    text = _text_box(limits, "try-text")
    button = gr.Button("Classify", variant="primary", elem_id="try-run")
    with gr.Row():
        with gr.Column(min_width=260):
            result = _html(_PREDICTION, "try-result")
        with gr.Column(min_width=260):
            why = _html(_WHY, "try-why")

    async def run(value: str) -> AsyncGenerator[tuple[str, str], None]:
        with shown():
            checked = check_text(value, limits)
            predicted = render_prediction(_PREDICTION, (await batcher.predict([checked]))[0])
            yield predicted, render_empty(_WHY, "…")  # which takes longer
            yield predicted, render_explanation(_WHY, await batcher.explain(checked))

    _on_text(text, button, run, [result, why])


def _add_compare(names: list[str], batchers: list[Batcher], limits: Limits) -> None:
    text = _text_box(limits, "compare-text")
    button = gr.Button("Compare", variant="primary", elem_id="compare-run")
    results: list[Any] = []
    with gr.Row():
        for number, name in enumerate(names):
            with gr.Column(min_width=260):
                results += [_html(name, f"compare-result-{number}"), _html(_WHY, f"compare-why-{number}")]

    async def run(value: str) -> AsyncGenerator[list[str], None]:
        with shown():
            checked = check_text(value, limits)
            found = await asyncio.gather(*(batcher.predict([checked]) for batcher in batchers))
            parts = [render_prediction(name, answer[0]) for name, answer in zip(names, found, strict=True)]
            yield [html for part in parts for html in (part, render_empty(_WHY, "…"))]
            reasons = await asyncio.gather(*(batcher.explain(checked) for batcher in batchers))
            pairs = zip(parts, reasons, strict=True)
            yield [html for part, reason in pairs for html in (part, render_explanation(_WHY, reason))]

    _on_text(text, button, run, results)


def _html(title: str, elem_id: str) -> Any:
    return gr.HTML(render_empty(title), container=True, padding=True, elem_id=elem_id)


def _text_box(limits: Limits, elem_id: str) -> Any:
    placeholder = "Type or paste a text. Shift and Enter starts."
    return gr.Textbox(
        label="Text", placeholder=placeholder, lines=5, max_lines=16, max_length=limits.max_characters, elem_id=elem_id
    )


def _on_text(text: Any, button: Any, run: Any, outputs: list[Any]) -> None:
    for event in (button.click, text.submit):
        event(run, text, outputs, show_progress="hidden", **_PRIVATE)


def _add_file(batcher: Batcher, limits: Limits) -> None:
    file = gr.File(
        label=f"A .csv file of at most {limits.max_upload / 2**20:.3g} MB and {limits.max_rows:,} rows",
        file_types=[".csv"],
        elem_id="file-input",
        height=140,
    )
    with gr.Row(equal_height=True):
        column = gr.Dropdown([], label="Column of the texts", elem_id="file-column", interactive=True)
        button = gr.Button("Predict", variant="primary", elem_id="file-run", interactive=False)
    result = _html(_FILE, "file-result")
    output = gr.File(label="All columns, and the predictions", visible=False, interactive=False, elem_id="file-output")

    def choose(path: str | None) -> tuple[Any, Any, Any, Any]:
        """The columns of a new file, and nothing of the one before it."""
        with shown(None if path is None else Path(path)):
            names = [] if path is None else read_columns(Path(path))
        chosen = "text" if "text" in names else next(iter(names), None)
        hidden = gr.File(value=None, visible=False)
        return gr.Dropdown(names, value=chosen), gr.Button(interactive=bool(names)), render_empty(_FILE), hidden

    async def run(path: str, text_column: str) -> AsyncGenerator[tuple[str, Any], None]:
        source = Path(path)
        progress = Progress()
        with shown(source), tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / f"{source.stem}-predictions.csv"
            async for progress in predict_table(batcher, source, text_column, target):
                yield render_counts(_FILE, progress.rows, progress.counts), gr.File(visible=False)
            # Gradio takes its copy when this is yielded.
            yield render_counts(_FILE, progress.rows, progress.counts), gr.File(value=str(target), visible=True)

    file.change(choose, file, [column, button, result, output], show_progress="hidden", **_PRIVATE)
    button.click(run, [file, column], [result, output], show_progress="minimal", concurrency_limit=2, **_PRIVATE)


__all__ = ["add_classifier_tabs"]
