"""The rows of one table (.jsonl, .csv, .parquet, .arrow): the values of some columns, and where each row stands."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .formats import TABLE_FORMATS, format_of
from .text_stream import Errors, TextStream

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# The csv module refuses fields above 128 kB unless told otherwise; this is the most that every platform takes.
_LARGEST_FIELD = 2**31 - 1
# What some programs write between the fields of a .csv file in place of a comma.
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Column:
    """A column to read, and what an error says about it."""

    name: str
    # The option that chooses it, and what it holds.
    flag: str = "--text_column"
    holds: str = "the text"
    # Whether each value must be text; otherwise it is what the format gives, None included.
    is_text: bool = True


class Row(NamedTuple):
    # In the order of the columns.
    values: list[Any]
    # The line on which the row ends; in a table without lines, the row itself. Both count from 1.
    number: int
    # How many bytes of the file on disk have been read so far.
    position: int


def read_rows(path: Path, columns: Sequence[Column], errors: Errors = "strict") -> Iterator[Row]:
    """The values of the columns, a row at a time."""
    kind = format_of(path)
    if kind in TABLE_FORMATS:
        yield from _read_table(path, columns, errors)
        return
    with TextStream(path, errors) as stream:
        rows = (_read_jsonl if kind == ".jsonl" else _read_csv)(stream, columns)
        for values, number in rows:
            check_text(values, columns, path, number)
            yield Row(values, number, stream.position)


def place_of(source: Path | str, number: int) -> str:
    """Where a row stands, as an error names it."""
    has_lines = isinstance(source, Path) and format_of(source) not in (".parquet", ".arrow")
    return f"{source}, {'line' if has_lines else 'row'} {number:,}"


def _read_jsonl(stream: TextStream, columns: Sequence[Column]) -> Iterator[tuple[list[Any], int]]:
    for number, line in enumerate(stream.lines(), start=1):
        if not line.strip():
            continue
        place = place_of(stream.path, number)
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"expected a JSON object a line, found broken JSON in {place}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(
                f"expected a JSON object a line, found {type(row).__name__} in {place}: {line.strip():.60}"
            )
        check_columns(columns, place, list(row))
        # Half of a character is valid in JSON ("\ud83d") and nowhere else: it has no bytes in UTF-8.
        yield [_mend_surrogates(row[column.name], place, stream.errors) for column in columns], number


def _mend_surrogates(value: Any, place: str, errors: Errors) -> Any:
    if isinstance(value, list):
        return [_mend_surrogates(item, place, errors) for item in value]
    if not isinstance(value, str) or not _LONE_SURROGATE.search(value):
        return value
    if errors == "strict":
        raise ValueError(
            f"expected Unicode text in {place}, found a lone surrogate, half of a character; repair the line, "
            "or pass --errors replace to read it as \ufffd"
        )
    return _LONE_SURROGATE.sub("\ufffd", value)


def _read_csv(stream: TextStream, columns: Sequence[Column]) -> Iterator[tuple[list[Any], int]]:
    # Every field is text as it stands: "NA", "" and "007" are not missing values or numbers.
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_FIELD))
    lines = stream.lines()
    first = next(lines, "")
    _check_delimiter(first, columns, stream.path)
    rows = csv.reader(chain([first], lines), strict=True)
    try:
        header = next(rows, [])
        check_columns(columns, str(stream.path), header)
        indices = [header.index(column.name) for column in columns]
        for row in rows:
            if row and len(row) != len(header):
                raise ValueError(
                    f"expected {len(header)} fields a row, as in the header of {stream.path}, found {len(row)} in the "
                    f"row that ends on line {rows.line_num:,}; quote the fields that hold commas or line ends"
                )
            if row:
                yield [row[index] for index in indices], rows.line_num
    except csv.Error as error:
        raise ValueError(
            f"expected well-formed CSV, found {error} in {stream.path}, line {rows.line_num:,}; quote fields with "
            '" and double the quotes inside them'
        ) from error


def _check_delimiter(header: str, columns: Sequence[Column], path: Path) -> None:
    """Refuse a file that is cut by something else: its whole header would pass for the name of one column."""
    names = {column.name for column in columns}
    for delimiter, name in _OTHER_DELIMITERS.items():
        if delimiter in header and "," not in header and header.strip().strip('"') not in names:
            raise ValueError(
                f"expected commas between the columns of {path}, found {name}: {header.strip()!r:.60}; save it with "
                f"commas, as pandas.read_csv(file, sep={delimiter!r}).to_csv(file, index=False) does"
            )


def _read_table(path: Path, columns: Sequence[Column], errors: Errors) -> Iterator[Row]:
    import pyarrow

    kind, number, names = path.suffix.lower()[1:], 0, [column.name for column in columns]
    try:
        with (_open_parquet if kind == "parquet" else _open_arrow)(path) as (schema, read_batches):
            _check_schema(columns, path, schema)
            for batch, position in read_batches(names):
                for row in zip(*(_table_values(batch.column(name)) for name in names), strict=True):
                    number += 1
                    place = place_of(path, number)
                    values = [_decode_value(value, place, errors) for value in row]
                    check_text(values, columns, path, number)
                    yield Row(values, number, position)
    except UnicodeDecodeError as error:  # inside a list
        raise ValueError(f"expected UTF-8 in {path}, found other bytes after row {number:,} ({error})") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"expected a whole {kind} file, found {path} damaged or cut short ({error})") from error


# The rows of these columns in pieces, each with how many bytes of the file have been read.
_Batches = Callable[[list[str]], Iterator[tuple[Any, int]]]
_BATCH_SIZE = 1024


@contextmanager
def _open_parquet(path: Path) -> Iterator[tuple[Any, _Batches]]:
    import pyarrow.parquet

    size = path.stat().st_size
    # Otherwise whole row groups are read ahead, and nothing of them is released before the end of the file.
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:

        def read_batches(names: list[str]) -> Iterator[tuple[Any, int]]:
            rows = 0
            for batch in file.iter_batches(batch_size=_BATCH_SIZE, columns=names):
                rows += len(batch)
                yield batch, size * rows // file.metadata.num_rows

        yield file.schema_arrow, read_batches


@contextmanager
def _open_arrow(path: Path) -> Iterator[tuple[Any, _Batches]]:
    """A stream of record batches, as `datasets` writes them. Mapped, not read: other columns cost nothing."""
    import pyarrow.ipc

    with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as stream:

        def read_batches(names: list[str]) -> Iterator[tuple[Any, int]]:
            for batch in stream:
                for start in range(0, len(batch), _BATCH_SIZE):
                    yield batch.select(names).slice(start, _BATCH_SIZE), file.tell()

        yield stream.schema, read_batches


def _check_schema(columns: Sequence[Column], path: Path, schema: Any) -> None:
    check_columns(columns, str(path), schema.names)
    for column in columns:
        if column.is_text and not _holds_text(schema.field(column.name).type):
            raise ValueError(
                f"expected text in column {column.name!r} of {path}, found values of type "
                f"{schema.field(column.name).type}; pass {column.flag} with one that holds text among "
                f"{schema.names}"
            )


def _holds_text(kind: Any) -> bool:
    import pyarrow

    values = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    return values in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())


def _table_values(column: Any) -> list[Any]:
    """Python values; text as bytes, since such files do not promise that it is UTF-8."""
    import pyarrow

    if _holds_text(column.type):  # dictionary-encoded and view strings become plain ones first
        return list(column.cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist())
    return list(column.to_pylist())


def _decode_value(value: Any, place: str, errors: Errors) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected UTF-8 in {place}, found byte 0x{value[error.start]:02x} at position {error.start:,} of its "
            "text; repair the row, or pass --errors replace to read such bytes as \ufffd"
        ) from error


def check_text(values: list[Any], columns: Sequence[Column], source: Path | str, number: int) -> None:
    """Refuse a row that has something else where text is expected."""
    for value, column in zip(values, columns, strict=True):
        if column.is_text and not isinstance(value, str):
            found = "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
            raise ValueError(
                f"expected text in {column.name!r} of {place_of(source, number)}, found {found}; remove the row or "
                'give it a text, which may be empty ("")'
            )


def check_columns(columns: Sequence[Column], place: str, found: list[str]) -> None:
    """Refuse a table that lacks one of the columns, or has it twice."""
    for column in columns:
        if column.name not in found:
            others = [name for name in found if name not in {other.name for other in columns}]
            remedy = shlex.quote(others[0]) if len(others) == 1 else f"with the one that holds {column.holds}"
            raise ValueError(
                f"expected a column {column.name!r} in {place}, found {found or '[], an empty file'}; pass "
                f"{column.flag} {remedy}"
            )
        if found.count(column.name) > 1:
            raise ValueError(f"expected one column {column.name!r} in {place}, found {found}; rename all but one")


__all__ = ["Column", "Row", "check_columns", "check_text", "place_of", "read_rows"]
