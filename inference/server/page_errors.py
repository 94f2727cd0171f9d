"""What a page says when a request is refused: the line that the API would give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import gradio as gr

from .errors import BusyError, TooSlowError
from .limits import Limits
from .schema import check_value


@contextmanager
def shown(path: Path | None = None) -> Iterator[None]:
    """Errors about what the user gave, as messages of the page; where an uploaded file lies is nobody's business."""
    try:
        yield
    except (ValueError, OSError, BusyError, TooSlowError) as error:
        message = str(error) if path is None else str(error).replace(str(path), path.name)
        # Gradio would take what looks like HTML in it, such as a column's name, for HTML.
        raise gr.Error(escape(message), print_exception=False) from None


def check_text(text: str | None, limits: Limits) -> str:
    """A text that may go to the model."""
    text = text or ""
    check_value(text, {"type": "string", "maxLength": limits.max_characters}, "the text")
    return text


__all__ = ["check_text", "shown"]
