"""A table that is written in parts: what is done survives a kill, and the file itself is there whole or not at all.

While it is written there is a hidden folder beside the final name, with the settings it was started with and a part for
each window. A part is complete or not there, so whoever comes next starts at the first one that is missing. In the end
the parts are joined and take the final name. (A parquet file cannot be appended to, as its index stands at its end; so
all formats are written this way.)
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from greffe.tokenization.output_folder import sync

FORMATS = (".csv", ".jsonl", ".parquet")
_SETTINGS, _LOCK = "settings.json", ".lock"


def output_format(path: Path) -> str:
    """The format that the name of an output file asks for."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"expected --output to end in {', '.join(FORMATS)}, found {path}")
    return path.suffix.lower()


class PartedFile:
    """The output file of a run and its parts so far. Made by `open_parts`."""

    def __init__(self, path: Path, folder: Path, columns: list[str], schema: Any = None):
        self.path = path
        self.folder = folder
        self.format = output_format(path)
        self.columns = columns  # of a .csv file
        self.schema = schema  # of a .parquet file
        self.count = 0
        while self._part(self.count).is_file():
            self.count += 1

    def append(self, rows: Any) -> None:
        """Write the next part: a list of dictionaries, or a pyarrow.Table."""
        self._write(self._part(self.count), lambda file: self._encode(rows, file))
        self.count += 1

    @property
    def is_complete(self) -> bool:
        """Whether an earlier run joined its parts, and only the final name is missing."""
        return self._joined.is_file()

    def finish(self) -> None:
        """Join the parts under the final name. A kill at any moment leaves what is needed to do it again."""
        if not self.is_complete:
            self._write(self._joined, self._join)
        for number in range(self.count):
            self._part(number).unlink()
        self._joined.replace(self.path)
        sync(self.path.parent)

    @property
    def _joined(self) -> Path:
        return self.folder / f"complete{self.format}"

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}{self.format}"

    def _write(self, path: Path, write: Callable[[BinaryIO], None]) -> None:
        temporary = path.with_name(f"{path.name}.partial")
        with temporary.open("wb") as file:
            write(file)
        sync(temporary)
        temporary.replace(path)
        sync(self.folder)

    def _encode(self, rows: Any, file: BinaryIO) -> None:
        if self.format == ".parquet":
            import pyarrow
            import pyarrow.parquet

            table = rows if isinstance(rows, pyarrow.Table) else pyarrow.Table.from_pylist(rows, self.schema)
            pyarrow.parquet.write_table(table, file)
        else:
            file.write(encode_rows(rows, self.format, self.columns))

    def _join(self, file: BinaryIO) -> None:
        parts = [self._part(number) for number in range(self.count)]
        if self.format == ".parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetWriter(file, self.schema) as writer:
                for part in parts:
                    with pyarrow.parquet.ParquetFile(part) as content:
                        writer.write_table(content.read())
            return
        file.write(encode_header(self.format, self.columns))
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)


@contextmanager
def open_parts(
    path: Path, settings: dict[str, Any], columns: list[str], schema: Any, announce: Callable[[str], None]
) -> Iterator[PartedFile]:
    """The output, held by this run alone, with the parts of an interrupted run that had the same settings.

    Settings tell all that the content depends on; without an `input` among them a run cannot be continued.
    """
    folder = path.with_name(f".{path.name}.parts")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(f"expected an output of its own, found {path} being written by another run") from None
    try:
        if path.exists():
            raise FileExistsError(f"expected a new file, found {path}; choose another --output, or remove it first")
        _start(folder, json.loads(json.dumps(settings)), announce)
        output = PartedFile(path, folder, columns, schema)
        yield output
        output.finish()
    finally:
        lock.release()
        if not any(entry.suffix in FORMATS for entry in folder.iterdir()):  # nothing to continue from
            shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, settings: dict[str, Any], announce: Callable[[str], None]) -> None:
    path = folder / _SETTINGS
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    if before is not None and before == settings and settings.get("input") is not None:
        return
    if before is not None:
        changed = sorted(name for name in {*before, *settings} if before.get(name) != settings.get(name))
        announce(f"starting anew: {', '.join(changed) or 'input'} changed since the interrupted run")
    for entry in folder.iterdir():
        if entry.name != _LOCK:
            entry.unlink()
    temporary = path.with_name(f"{_SETTINGS}.partial")
    temporary.write_text(json.dumps(settings, indent=1, ensure_ascii=False), encoding="utf-8")
    os.replace(temporary, path)


def encode_header(format: str, columns: list[str]) -> bytes:
    return _csv_bytes([columns]) if format == ".csv" else b""


def encode_rows(rows: Any, format: str, columns: list[str]) -> bytes:
    """Rows as lines of .csv or .jsonl."""
    rows = rows if isinstance(rows, list) else rows.to_pylist()
    if format == ".csv":
        return _csv_bytes([[_field(row.get(name)) for name in columns] for row in rows])
    return b"".join(_json(row) + b"\n" for row in rows)


def _csv_bytes(rows: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _field(value: Any) -> str:
    """A value as CSV has it, which knows text only: nothing for None, JSON for what has parts."""
    if value is None:
        return ""
    if isinstance(value, (bool, list, dict)):
        return _dump(value)
    return value if isinstance(value, str) else str(_plain(value))


def _json(row: dict[str, Any]) -> bytes:
    try:
        return _dump(row).encode()
    except UnicodeEncodeError:  # half of a character in another column: JSON can write it, as an escape
        return _dump(row, ensure_ascii=True).encode()


def _dump(value: Any, ensure_ascii: bool = False) -> str:
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, default=_plain, allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity
        return json.dumps(_without_nan(value), ensure_ascii=ensure_ascii, default=_plain)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """What parquet holds and JSON does not, as text: moments as ISO 8601, bytes as base64, others as Python prints."""
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


__all__ = ["FORMATS", "PartedFile", "encode_header", "encode_rows", "open_parts", "output_format"]
