"""The page: a Gradio application beside the API, in the same process and on the same models.

What it shows depends on what the model can do. It is whole in itself: no font, script or count comes from elsewhere.
"""

from __future__ import annotations

from typing import Any

import gradio as gr
from starlette.applications import Starlette

from .batching import Batcher
from .classifier_tabs import add_classifier_tabs
from .limits import Limits
from .rendering import STYLE, render_head
from .workers import Worker
from .writer_tabs import add_writer_tabs

_HOUR = 3600
_WAITING = 256  # clicks of all pages that may wait


def mount_page(app: Starlette, names: list[str], workers: list[Worker], limits: Limits) -> None:
    """Put the page at / of the application, behind the routes that it has already."""
    blocks = make_page(names, workers, limits)
    fastapi: Any = app  # of which only what Starlette has is used
    gr.mount_gradio_app(
        fastapi,
        blocks,
        "/",
        theme=_theme(),
        head=f"<style>{STYLE}</style>",
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=limits.max_upload,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
    )


def make_page(names: list[str], workers: list[Worker], limits: Limits) -> gr.Blocks:
    """The components, for one model or for two that are compared."""
    # Files are uploads and their predictions; an hour is time enough to fetch them.
    with gr.Blocks(title=names[0], analytics_enabled=False, delete_cache=(_HOUR, _HOUR)) as blocks:
        gr.HTML(render_head(names[0], _describe(workers[0])), padding=False)
        with gr.Tabs():
            if isinstance(workers[0], Batcher):
                add_classifier_tabs(names, [worker for worker in workers if isinstance(worker, Batcher)], limits)
            else:
                add_writer_tabs(names, [worker for worker in workers if not isinstance(worker, Batcher)], limits)
    return blocks.queue(max_size=_WAITING, default_concurrency_limit=_WAITING, api_open=False)


def _describe(worker: Worker) -> str:
    if not isinstance(worker, Batcher):
        return f"A language model of {worker.model.model.num_parameters():,} parameters"
    labels = worker.classifier.labels
    size = f"{worker.classifier.model.num_parameters():,} parameters"
    if labels.task == "regression":
        return f"Gives a number, {labels.names[0]}; {size}"
    kind = "Chooses among" if labels.task == "single_label" else "Chooses any of"
    shown = ", ".join(labels.names[:6]) + (f" and {len(labels.names) - 6} more" if len(labels.names) > 6 else "")
    return f"{kind} {shown}; {size}"


def _theme() -> gr.themes.Base:
    return gr.themes.Default(
        primary_hue="emerald",
        neutral_hue="slate",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    ).set(body_text_color_subdued="*neutral_500")  # the theme's own is too pale to read on white


__all__ = ["make_page", "mount_page"]
