"""Texts to predict, with everything that stands beside them: windows of rows, read as a stream."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, get_args

from greffe.tokenization.documents import read_documents
from greffe.tokenization.formats import TEXT_FORMATS, format_of
from greffe.tokenization.rows import Column, read_rows
from greffe.tokenization.text_stream import COMPRESSIONS, Errors, TextStream

# Rows that are held at once. They are sorted by length for the batches, and written when all are done.
WINDOW = 2048
_KNOWN = f"a {', '.join(TEXT_FORMATS)} file (plain or {', '.join(COMPRESSIONS)}) or a .parquet file"


@dataclass(frozen=True)
class Window:
    """Some rows that follow each other: the text of each, and all of its columns."""

    texts: list[str]
    rows: Any  # list[dict[str, Any]], or a pyarrow.Table where a parquet file gives the types
    # How many bytes of the file on disk have been read so far.
    position: int = 0


@dataclass
class Source:
    """Where texts come from. Each pass over a file reads it anew, in the same windows."""

    path: Path | None
    text_column: str = "text"
    errors: Errors = "strict"
    # Texts that were given instead of a file, or standard input: a text a line.
    given: Iterable[str] = ()
    # Whether somebody types them, and waits for the answer to each.
    is_typed: bool = False

    def __post_init__(self) -> None:
        if self.errors not in get_args(Errors):
            raise ValueError(f"expected errors among {list(get_args(Errors))}, found {self.errors!r}")
        self.format = None if self.path is None else format_of(self.path)
        if self.path is not None and self.format not in (*TEXT_FORMATS, ".parquet"):
            remedy = "save it as .parquet" if self.format else "rename it after what it holds"
            raise ValueError(f"expected {_KNOWN}, found {self.path}; {remedy}")
        self.total_bytes = 0 if self.path is None else self.path.stat().st_size

    def windows(self, size: int = WINDOW) -> Iterator[Window]:
        if self.path is None:
            return _window_texts(((text, 0) for text in self.given), 1 if self.is_typed else size)
        if self.format == ".txt":
            return _window_texts(read_documents(self.path, errors=self.errors), size)
        # The checked texts and the whole rows are read side by side: the reader of texts says what is wrong with a
        # file, and need not carry columns that nothing looks at.
        texts = read_rows(self.path, [Column(self.text_column)], self.errors)
        if self.format == ".parquet":
            return _window_parquet(self.path, texts, size)
        return _window_rows(texts, self._whole_rows(), size)

    def columns(self) -> list[str]:
        """The names of the columns. A .jsonl file is read through for them, as any row may have others."""
        if self.path is None or self.format == ".txt":
            return ["text"]
        if self.format == ".jsonl":
            return list(dict.fromkeys(name for window in self.windows() for row in window.rows for name in row))
        if self.format == ".parquet":
            return list(self.schema().names)
        with TextStream(self.path, self.errors) as stream:
            return next(csv.reader(stream.lines()), [])

    def schema(self) -> Any:
        """The types of the columns, as parquet keeps them: text in .csv, what a .jsonl file holds in all its rows."""
        import pyarrow
        import pyarrow.parquet

        if self.format == ".parquet":
            next(read_rows(self._file, [Column(self.text_column)], self.errors), None)  # which says what is wrong
            return pyarrow.parquet.read_schema(self._file)
        if self.format != ".jsonl":
            return pyarrow.schema([(name, pyarrow.string()) for name in self.columns()])
        schema = pyarrow.schema([])
        for window in self.windows():
            found = _infer_schema(window.rows, self._file)
            try:
                schema = pyarrow.unify_schemas([schema, found], promote_options="permissive")
            except pyarrow.ArrowException as error:
                raise _mixed_types(self._file, str(error)) from error
        return schema

    @property
    def _file(self) -> Path:
        if self.path is None:
            raise ValueError("expected a file, found texts")
        return self.path

    def _whole_rows(self) -> Iterator[dict[str, Any]]:
        with TextStream(self._file, self.errors) as stream:
            if self.format == ".jsonl":
                for line in stream.lines():
                    if line.strip():
                        yield json.loads(line)
                return
            rows = csv.reader(stream.lines(), strict=True)
            header = next(rows, [])
            if len(set(header)) < len(header):
                raise ValueError(f"expected each column once in {self.path}, found {header}; rename all but one")
            for row in rows:
                if row:
                    yield dict(zip(header, row, strict=True))


def open_source(inputs: list[str], text_column: str, errors: Errors, standard_input: BinaryIO) -> Source:
    """What the arguments of a command mean: a file, texts, or nothing, which is standard input."""
    if not inputs or inputs == ["-"]:
        return Source(None, given=_read_lines(standard_input, errors), is_typed=standard_input.isatty())
    files = [text for text in inputs if Path(text).is_file() or _looks_like_file(text)]
    if not files:
        return Source(None, given=inputs)
    if len(inputs) > 1:
        raise ValueError(
            f"expected one file, or texts, found {len(inputs)} arguments, of which {files[0]} is a file; give it alone"
        )
    path = Path(files[0])
    if not path.is_file():
        raise FileNotFoundError(f"expected a text or a file, found {path}: no such file")
    return Source(path, text_column, errors)


def _read_lines(stream: BinaryIO, errors: Errors) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8", errors).rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"expected UTF-8 on standard input, found byte 0x{line[error.start]:02x} on line {number:,}; re-encode "
                "it, or pass --errors replace to read such bytes as \ufffd"
            ) from error


def _looks_like_file(text: str) -> bool:
    """Whether someone who wrote this meant a file, and mistook its name."""
    return format_of(text) is not None and not any(character.isspace() for character in text)


def _window_texts(texts: Iterable[tuple[str, int]], size: int) -> Iterator[Window]:
    texts = iter(texts)
    while window := list(islice(texts, size)):
        chosen = [text for text, _ in window]
        yield Window(chosen, [{"text": text} for text in chosen], window[-1][1])


def _window_rows(texts: Iterator[Any], rows: Iterator[dict[str, Any]], size: int) -> Iterator[Window]:
    # `zip` asks for the checked text first: what is wrong with a row is said before the row is read again.
    pairs = zip(texts, rows, strict=True)
    while window := list(islice(pairs, size)):
        yield Window([text.values[0] for text, _ in window], [row for _, row in window], window[-1][0].position)


def _window_parquet(path: Path, texts: Iterator[Any], size: int) -> Iterator[Window]:
    import pyarrow
    import pyarrow.parquet

    def make(table: Any) -> Window:
        rows = list(islice(texts, len(table)))
        return Window([row.values[0] for row in rows], table, rows[-1].position)

    # Otherwise whole row groups are read ahead, and nothing of them is released before the end of the file.
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        kept = file.schema_arrow.empty_table()
        for batch in file.iter_batches(batch_size=size):
            # Row groups may be smaller than a window.
            kept = pyarrow.concat_tables([kept, pyarrow.Table.from_batches([batch])])
            while len(kept) >= size:
                yield make(kept.slice(0, size))
                kept = kept.slice(size)
        if len(kept):
            yield make(kept)


def _infer_schema(rows: list[dict[str, Any]], path: Path) -> Any:
    import pyarrow

    fields = []
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            fields.append((name, pyarrow.array([row.get(name) for row in rows]).type))
        except pyarrow.ArrowException as error:
            raise _mixed_types(path, f"column {name!r}: {error}") from error
    return pyarrow.schema(fields)


def _mixed_types(path: Path, found: str) -> ValueError:
    return ValueError(
        f"expected values of one type in each column of {path}, as parquet needs them, found {found}; write .jsonl"
    )


__all__ = ["WINDOW", "Source", "Window", "open_source"]
