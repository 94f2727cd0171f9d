"""The page of a language model: continue a text, compare two models on one beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import gradio as gr

from .limits import Limits
from .page_errors import check_text, shown
from .schema import check_value, generate_schema
from .writing import Writer

_PRIVATE: dict[str, Any] = {"api_visibility": "private"}  # programs have an API of their own
_SETTINGS = ("max_new_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "seed")
_REFRESH = 0.05  # seconds between two looks at a text that is being written


def add_writer_tabs(names: list[str], writers: list[Writer], limits: Limits) -> None:
    with gr.Tab("Continue a text", id="write"):
        _add_tab("write", ["Text"], writers[:1], limits)
    if len(writers) > 1:
        with gr.Tab("Compare", id="compare"):
            _add_tab("compare", names, writers, limits)


def _add_tab(prefix: str, names: list[str], writers: list[Writer], limits: Limits) -> None:
    prompt = gr.Textbox(
        label="Beginning",
        placeholder="Type how the text begins. Shift and Enter starts.",
        lines=3,
        max_lines=12,
        max_length=limits.max_characters,
        elem_id=f"{prefix}-prompt",
    )
    settings = _add_settings(limits)
    with gr.Row():
        button = gr.Button("Continue", variant="primary", elem_id=f"{prefix}-run")
        stop = gr.Button("Stop", elem_id=f"{prefix}-stop")
    with gr.Row():
        results = [
            gr.Textbox(
                label=name,
                lines=8,
                max_lines=24,
                min_width=260,
                buttons=["copy"],
                elem_id=f"{prefix}-result-{number}",
            )
            for number, name in enumerate(names)
        ]

    async def run(beginning: str, *values: Any) -> AsyncGenerator[Any, None]:
        with shown():
            checked = check_text(beginning, limits)
            chosen = _check_settings(dict(zip(_SETTINGS, values, strict=True)), limits)
            async with aclosing(write_together(writers, checked, chosen)) as texts:
                async for written in texts:
                    yield [checked + text for text in written] if len(written) > 1 else checked + written[0]

    started: list[Any] = [
        event(run, [prompt, *settings], results, show_progress="hidden", **_PRIVATE)
        for event in (button.click, prompt.submit)
    ]
    stop.click(None, None, None, cancels=started, **_PRIVATE)


def _add_settings(limits: Limits) -> list[Any]:
    """In the order of _SETTINGS."""
    parts = generate_schema(limits)["properties"]
    with gr.Accordion("Settings", open=False):
        with gr.Row():
            most, default = limits.max_new_tokens, parts["max_new_tokens"]["default"]
            tokens = gr.Slider(1, most, default, step=1, precision=0, label="Most tokens to write")
            temperature = gr.Slider(0, 2, parts["temperature"]["default"], step=0.05, label="Temperature")
        with gr.Row():
            top_k = gr.Slider(0, 200, parts["top_k"]["default"], step=1, precision=0, label="Top k (0: all)")
            top_p = gr.Slider(0.05, 1, parts["top_p"]["default"], step=0.05, label="Top p")
        with gr.Row():
            penalty = gr.Slider(1, 2, parts["repetition_penalty"]["default"], step=0.05, label="Repetition penalty")
            seed = gr.Textbox(label="Seed", placeholder="empty: another text each time")
    return [tokens, temperature, top_k, top_p, penalty, seed]


def _check_settings(settings: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the page sends, as the schema has it: a browser may send anything."""
    seed = str(settings["seed"] or "").strip()
    if seed and not seed.isdecimal():
        raise ValueError(f"expected a whole number for the seed, or nothing, found {seed[:40]!r}")
    settings["seed"] = int(seed[:20]) if seed else None
    check_value(settings, generate_schema(limits), "the settings")
    return settings


async def write_together(
    writers: list[Writer], prompt: str, settings: dict[str, Any]
) -> AsyncGenerator[list[str], None]:
    """What each has written so far, a few times a second."""
    texts = [""] * len(writers)

    async def follow(number: int) -> None:
        async with aclosing(writers[number].write(prompt=prompt, **settings)) as pieces:
            async for piece in pieces:
                texts[number] += piece

    tasks = [asyncio.create_task(follow(number)) for number in range(len(writers))]
    try:
        while not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=_REFRESH)
            yield list(texts)
        for task in tasks:
            task.result()  # which raises what went wrong
    finally:
        for task in tasks:
            task.cancel()


__all__ = ["add_writer_tabs", "write_together"]
