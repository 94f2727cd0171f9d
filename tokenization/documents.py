"""The documents of one file: what a document is in each format."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from .text_stream import COMPRESSIONS, Errors, TextStream

TEXT_FORMATS = (".txt", ".jsonl", ".csv")
Separator = Literal["line", "blank_line"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# The csv module refuses fields above 128 kB unless told otherwise; this is the most that every platform takes.
_LARGEST_FIELD = 2**31 - 1


def format_of(path: str | Path) -> str | None:
    """The format that a name tells, `.txt` for `a.txt.gz`; None when it is not one that is read."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        return ".parquet"  # compressed inside: an archive of one could not be read in pieces
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return name.suffix.lower() if name.suffix.lower() in TEXT_FORMATS else None


def read_documents(
    path: Path, text_column: str = "text", separator: Separator = "line", errors: Errors = "strict"
) -> Iterator[tuple[str, int]]:
    """The documents of a file, each with how many bytes of the file on disk have been read so far."""
    kind = format_of(path)
    if kind == ".parquet":
        yield from _read_parquet(path, text_column, errors)
        return
    readers: dict[str | None, Callable[[TextStream], Iterator[str]]] = {
        ".txt": _read_lines if separator == "line" else _read_paragraphs,
        ".jsonl": lambda stream: _read_jsonl(stream, text_column),
        ".csv": lambda stream: _read_csv(stream, text_column),
    }
    with TextStream(path, errors) as stream:
        for document in readers[kind](stream):
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


def _read_jsonl(stream: TextStream, text_column: str) -> Iterator[str]:
    for number, line in enumerate(stream.lines(), start=1):
        if not line.strip():
            continue
        place = f"{stream.path}, line {number:,}"
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"expected a JSON object a line, found broken JSON in {place}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(
                f"expected a JSON object a line, found {type(row).__name__} in {place}: {line.strip():.60}"
            )
        if text_column not in row:
            raise _no_column(text_column, place, list(row))
        text = _check_text(row[text_column], text_column, place)
        # Half of a character is valid in JSON ("\ud83d") and nowhere else: it has no bytes in UTF-8.
        if _LONE_SURROGATE.search(text):
            if stream.errors == "strict":
                raise ValueError(
                    f"expected Unicode text in {place}, found a lone surrogate, half of a character; repair the line, "
                    "or pass --errors replace to read it as \ufffd"
                )
            text = _LONE_SURROGATE.sub("\ufffd", text)
        yield text


def _read_csv(stream: TextStream, text_column: str) -> Iterator[str]:
    # Every field is text as it stands: "NA", "" and "007" are not missing values or numbers.
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_FIELD))
    rows = csv.reader(stream.lines(), strict=True)
    try:
        header = next(rows, [])
        if text_column not in header:
            raise _no_column(text_column, str(stream.path), header)
        column = header.index(text_column)
        for row in rows:
            if row and len(row) != len(header):
                raise ValueError(
                    f"expected {len(header)} fields a row, as in the header of {stream.path}, found {len(row)} in the "
                    f"row that ends on line {rows.line_num:,}; quote the fields that hold commas or line ends"
                )
            if row:
                yield row[column]
    except csv.Error as error:
        raise ValueError(
            f"expected well-formed CSV, found {error} in {stream.path}, line {rows.line_num:,}; quote fields with "
            '" and double the quotes inside them'
        ) from error


def _read_parquet(path: Path, text_column: str, errors: Errors) -> Iterator[tuple[str, int]]:
    import pyarrow
    import pyarrow.parquet

    size = path.stat().st_size
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            kind = _parquet_type(file.schema_arrow, text_column, path)
            row = 0
            for batch in file.iter_batches(batch_size=1024, columns=[text_column]):
                column = batch.column(0).cast(kind)  # from dictionary-encoded or view strings to plain ones
                for value in column.cast(pyarrow.large_binary()).to_pylist():
                    row += 1
                    text = _decode_value(value, text_column, f"{path}, row {row:,}", errors)
                    yield text, size * row // file.metadata.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"expected a whole parquet file, found {path} damaged or cut short ({error})") from error


def _parquet_type(schema: Any, text_column: str, path: Path) -> Any:
    """The type to read the column in; an error if it is not there or holds no text."""
    import pyarrow

    if text_column not in schema.names:
        raise _no_column(text_column, str(path), schema.names)
    kind = schema.field(text_column).type
    values = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if values not in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        raise ValueError(
            f"expected text in column {text_column!r} of {path}, found values of type {kind}; pass --text_column with "
            f"one that holds text among {schema.names}"
        )
    return pyarrow.large_string()


def _decode_value(value: bytes | None, text_column: str, place: str, errors: Errors) -> str:
    if value is None:
        return _check_text(value, text_column, place)
    try:
        return value.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected UTF-8 in {place}, found byte 0x{value[error.start]:02x} at position {error.start:,} of its "
            "text; repair the row, or pass --errors replace to read such bytes as \ufffd"
        ) from error


def _check_text(value: Any, text_column: str, place: str) -> str:
    if not isinstance(value, str):
        found = "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
        raise ValueError(
            f"expected text in {text_column!r} of {place}, found {found}; remove the row or give it a text (empty "
            "texts are skipped)"
        )
    return value


def _no_column(text_column: str, place: str, found: list[str]) -> ValueError:
    return ValueError(
        f"expected a column {text_column!r} in {place}, found {found}; pass --text_column with the "
        "one that holds the text"
    )


__all__ = ["TEXT_FORMATS", "Separator", "format_of", "read_documents"]
