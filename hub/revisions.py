"""What a revision is: files by the hash of their content, a message, a date and the revision before it.

A revision's name is the hash of all this, so that nothing in it can change without its name telling.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from .names import check_file_path, is_commit

FORMAT = 1
CHUNK = 1 << 20
# Above this size the Hub's clients send and name a file by its SHA-256 (Git LFS), below by Git's own hash.
LARGE_FILE = 5 * 1024 * 1024


@dataclass(frozen=True)
class StoredFile:
    """A file's content: its size, its SHA-256, which names the blob, and Git's hash of it, which clients compare."""

    size: int
    sha256: str
    oid: str

    @property
    def is_large(self) -> bool:
        return self.size > LARGE_FILE


@dataclass(frozen=True)
class Revision:
    """One state of a repository."""

    id: str
    parent: str | None
    date: str  # ISO 8601, UTC
    message: str
    files: Mapping[str, StoredFile]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def title(self) -> str:
        return (self.message.splitlines() or [""])[0]

    @classmethod
    def make(cls, parent: str | None, message: str, files: Mapping[str, StoredFile]) -> Revision:
        """A new revision, dated now."""
        date = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
        ordered = dict(sorted(files.items()))
        return cls(_name(parent, date, message, ordered), parent, date, message, ordered)

    @property
    def expected_id(self) -> str:
        """The name that the content asks for; another one tells that the record was changed."""
        return _name(self.parent, self.date, self.message, self.files)

    def to_json(self) -> str:
        record = {
            "format": FORMAT,
            "id": self.id,
            "parent": self.parent,
            "date": self.date,
            "message": self.message,
            "files": {path: asdict(file) for path, file in self.files.items()},
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, file: Path) -> Revision:
        """A stored record, or an error that names the file. Its paths are checked again: they become paths on disk."""
        try:
            record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            files = {check_file_path(path): StoredFile(**entry) for path, entry in record["files"].items()}
            if record["format"] != FORMAT or not is_commit(record["id"]):
                raise ValueError(f"found format {record['format']!r}")
            return cls(record["id"], record["parent"], record["date"], record["message"], files)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"expected the record of a revision in {file}, found it damaged: {error}") from error


def _name(parent: str | None, date: str, message: str, files: Mapping[str, StoredFile]) -> str:
    content = [parent, date, message, [[path, file.size, file.sha256] for path, file in sorted(files.items())]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:40]  # 40 digits, as Git's


def hash_file(file: str | os.PathLike[str]) -> StoredFile:
    """Read a file once, in constant memory, for everything a revision says of it."""
    with open(file, "rb") as stream:
        return hash_stream(stream, os.fstat(stream.fileno()).st_size)


def hash_stream(stream: BinaryIO, size: int, copy_to: BinaryIO | None = None) -> StoredFile:
    """Hash, and copy on the way if asked to. A file that changes size meanwhile is refused."""
    sha256, oid = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    seen = 0
    while chunk := stream.read(CHUNK):
        seen += len(chunk)
        sha256.update(chunk)
        oid.update(chunk)
        if copy_to is not None:
            copy_to.write(chunk)
    if seen != size:
        raise ValueError(f"expected {size:,} bytes in {stream.name}, found {seen:,}; it changed while it was read")
    return StoredFile(size, sha256.hexdigest(), oid.hexdigest())


__all__ = ["CHUNK", "LARGE_FILE", "Revision", "StoredFile", "hash_file", "hash_stream"]
