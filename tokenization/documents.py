"""The documents of one file: what a document is in each format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from .formats import format_of
from .rows import Column, read_rows
from .text_stream import Errors, TextStream

Separator = Literal["line", "blank_line"]


def read_documents(
    path: Path, text_column: str = "text", separator: Separator = "line", errors: Errors = "strict"
) -> Iterator[tuple[str, int]]:
    """The documents of a file, each with how many bytes of the file on disk have been read so far."""
    if format_of(path) != ".txt":
        for row in read_rows(path, [Column(text_column)], errors):
            yield row.values[0], row.position
        return
    with TextStream(path, errors) as stream:
        for document in _read_lines(stream) if separator == "line" else _read_paragraphs(stream):
            yield document, stream.position


def _read_lines(stream: TextStream) -> Iterator[str]:
    for line in stream.lines():
        yield line.rstrip("\r\n")


def _read_paragraphs(stream: TextStream) -> Iterator[str]:
    lines: list[str] = []
    for line in stream.lines():
        if line.strip():
            lines.append(line.rstrip("\r\n"))
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


__all__ = ["Separator", "read_documents"]
