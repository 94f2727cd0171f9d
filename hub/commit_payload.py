"""A commit as clients of the Hub send it: lines of JSON, some with a whole file in base64.

A line can be longer than memory, so it is read as it arrives: what stands between the quotes of `"content"` is decoded
into a file, and what is left of the line is ordinary, short JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .names import check_file_path
from .repository import Staged
from .revisions import hash_file

LONGEST_LINE = 1 << 20  # bytes, without the content
MOST_OPERATIONS = 25_000
# Inside a JSON string the quotes would be escaped: this matches a key only.
_CONTENT = re.compile(rb'"content"\s*:\s*"')


@dataclass(frozen=True)
class AddedFile:
    path: str
    content: Staged


@dataclass(frozen=True)
class AddedUpload:
    """A file whose content was uploaded before, or is in the repository already."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Deleted:
    path: str
    is_folder: bool


Operation = AddedFile | AddedUpload | Deleted


class CommitPayload:
    """Feed it bytes, then `close` it; contents of files are in `area`."""

    def __init__(self, area: Path):
        self.message = ""
        self.parent: str | None = None
        self.operations: list[Operation] = []
        self._area = area
        self._buffer = bytearray()
        self._head = b""  # of the line whose content is being read
        self._content: BinaryIO | None = None
        self._file: Path | None = None  # where the content of the current line is

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._read_content() if self._content else self._read_line():
            pass

    def close(self) -> None:
        if self._content:
            self._content.close()
            raise ValueError("expected a whole commit, found that it ends inside a file")
        if self._buffer.strip():
            self.feed(b"\n")

    def _read_content(self) -> bool:
        """Decode up to the closing quote; False when more bytes are needed."""
        assert self._content is not None
        end = self._buffer.find(b'"')
        usable = end if end >= 0 else len(self._buffer) - len(self._buffer) % 4
        try:
            self._content.write(base64.b64decode(bytes(self._buffer[:usable]), validate=True))
        except binascii.Error as error:
            self._content.close()
            raise ValueError(f"expected the content of a file in base64, found that it is not: {error}") from error
        del self._buffer[:usable]
        if end < 0:
            return False
        self._content.flush()
        os.fsync(self._content.fileno())
        self._content.close()
        self._content = None
        self._buffer[:0] = self._head
        return True

    def _read_line(self) -> bool:
        """Read one line, or up to the content in it; False when more bytes are needed."""
        end = self._buffer.find(b"\n")
        line = bytes(self._buffer[: end if end >= 0 else LONGEST_LINE + 1])
        if self._file is None and (match := _CONTENT.search(line)):
            self._file = self._area / uuid.uuid4().hex
            self._content = open(self._file, "wb")  # noqa: SIM115 - closed when the content ends
            self._head = line[: match.end()]
            del self._buffer[: match.end()]
            return True
        if len(line) > LONGEST_LINE:
            raise ValueError(f"expected lines of at most {LONGEST_LINE:,} bytes in a commit, found a longer one")
        if end < 0:
            return False
        del self._buffer[: end + 1]
        if line.strip():
            self._read_operation(line)
        self._file = None
        return True

    def _read_operation(self, line: bytes) -> None:
        try:
            entry: dict[str, Any] = json.loads(line)
            key, value = entry["key"], entry["value"]
            if key == "header":
                self.message = "\n\n".join(filter(None, [value.get("summary", ""), value.get("description", "")]))
                self.parent = value.get("parentCommit")
                return
            path = value["path"]
            self._add(key, path.rstrip("/") if key == "deletedFolder" else path, value)
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"expected an operation of a commit on each line, found {line[:120]!r}") from error

    def _add(self, key: str, path: str, value: dict[str, Any]) -> None:
        check_file_path(path)
        if len(self.operations) >= MOST_OPERATIONS:
            raise ValueError(f"expected at most {MOST_OPERATIONS:,} operations in a commit, found more")
        if key == "file":
            if value.get("encoding") != "base64" or self._file is None:
                raise ValueError(f"expected the content of {path} in base64, found {value.get('encoding')!r}")
            self.operations.append(AddedFile(path, Staged(hash_file(self._file), self._file)))
        elif key == "lfsFile":
            if value.get("algo") != "sha256" or not re.fullmatch(r"[0-9a-f]{64}", value["oid"]):
                raise ValueError(f"expected the SHA-256 of {path}, found {value!r:.120}")
            self.operations.append(AddedUpload(path, value["oid"]))
        elif key in ("deletedFile", "deletedFolder"):
            self.operations.append(Deleted(path, key == "deletedFolder"))
        else:
            raise ValueError(f"expected file, lfsFile, deletedFile or deletedFolder in a commit, found {key!r:.60}")


__all__ = ["AddedFile", "AddedUpload", "CommitPayload", "Deleted", "Operation"]
