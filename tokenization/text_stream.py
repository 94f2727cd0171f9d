"""The lines of one file, decompressed and decoded, with errors that name the place."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

COMPRESSIONS = (".gz", ".xz", ".zst", ".bz2")
Errors = Literal["strict", "replace"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What the decompressors raise about a file that was cut short, damaged, or is not what its name says.
_ARCHIVE_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error)


class TextStream:
    """An open text file. Lines end at a line feed only, as `wc -l` counts them, and keep their ends."""

    def __init__(self, path: Path, errors: Errors = "strict") -> None:
        self.path = path
        self.errors = errors
        # Not buffered: the decompressors read in blocks of their own, and `position` stays that of the disk.
        self._file = path.open("rb", buffering=0)
        self._bytes = _decompress(self._file, path.suffix.lower())

    def __enter__(self) -> TextStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def position(self) -> int:
        """How many bytes of the file, as it is on disk, have been read."""
        return self._file.tell() if self._file.seekable() else 0  # a pipe has none

    def lines(self) -> Iterator[str]:
        start = 0
        for number, line in enumerate(self._byte_lines(), start=1):
            yield self._decode(line, number, start)
            start += len(line)

    def _byte_lines(self) -> Iterator[bytes]:
        if self.path.suffix.lower() not in COMPRESSIONS:
            yield from self._bytes
            return
        read = 0
        try:
            for line in self._bytes:
                read += len(line)
                yield line
        except _ARCHIVE_ERRORS as error:
            raise ValueError(
                f"expected a whole {self.path.suffix} archive, found {self.path} damaged or cut short after {read:,} "
                f"bytes of text ({error}); fetch or compress it again"
            ) from error

    def _decode(self, line: bytes, number: int, start: int) -> str:
        """Decode one line; `start` is its place in the decompressed file, so that an error can tell its own."""
        if number == 1 and line.startswith(_BYTE_ORDER_MARK):
            line, start = line[len(_BYTE_ORDER_MARK) :], start + len(_BYTE_ORDER_MARK)
        try:
            return line.decode("utf-8", self.errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"expected UTF-8 in {self.path}, found byte 0x{line[error.start]:02x} at position "
                f"{start + error.start:,} (line {number:,}); re-encode the file (iconv -f ENCODING -t UTF-8), or pass "
                "--errors replace to read such bytes as \ufffd"
            ) from error


def _decompress(file: io.FileIO, suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".xz":
        return lzma.open(file)
    if suffix == ".bz2":
        return bz2.open(file)
    if suffix == ".zst":
        import pyarrow  # Python reads zstd from 3.14 on; pyarrow comes with datasets

        return io.BufferedReader(pyarrow.CompressedInputStream(file, "zstd"))
    return io.BufferedReader(file)


__all__ = ["COMPRESSIONS", "Errors", "TextStream"]
