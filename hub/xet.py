"""Uploads by the Xet protocol, which current clients use for every large file and cannot be talked out of.

A client cuts files into chunks, packs them into xorbs of up to 64 MiB, and then sends a shard: for each file, the
ranges of chunks that make it up. The hub keeps whole files, so a shard is the moment to put them together; the xorbs
are forgotten with the commit. Each upload gets an address of its own, so that no client counts on earlier chunks.
The formats are those of https://huggingface.co/docs/xet.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import shutil
import struct
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from starlette.exceptions import HTTPException
from starlette.requests import Request

from .repository import Repository
from .staging import LIFETIME, xet_folder
from .uploads import Hasher, keep_upload

LARGEST_XORB = 68 << 20  # 64 MiB, with room for what describes it
LARGEST_SHARD = 64 << 20
_SHARD_VERSION = 2
_ENTRY = 48  # bytes of every record in a shard
_END = b"\xff" * 32
_HAS_VERIFICATION, _HAS_METADATA = 1 << 31, 1 << 30


@dataclass(frozen=True)
class ChunkRange:
    """A run of chunks of a xorb, and how many bytes they are."""

    xorb: str
    size: int
    start: int
    end: int


def grant_upload(secret: bytes, address: str, repository: Repository) -> dict[str, str | int]:
    """An address for one upload to a repository, and the token that opens it."""
    session, expires = uuid.uuid4().hex, int(time.time()) + LIFETIME
    token = f"{expires}.{_sign(secret, repository, session, expires)}"
    return {"casUrl": f"{address}/xet/{repository.repo_id}/{session}", "accessToken": token, "exp": expires}


def open_session(secret: bytes, request: Request, repository: Repository) -> Path:
    """The folder of an upload, if the request has the token for it."""
    session = request.path_params["session"]
    sent = request.headers.get("authorization", "").partition(" ")[2]
    expires, _, signature = sent.partition(".")
    if not re.fullmatch(r"[0-9a-f]{32}", session) or not expires.isdecimal() or int(expires) < time.time():
        raise HTTPException(401, "expected the token of this upload, found another or one that is too old")
    if not hmac.compare_digest(_sign(secret, repository, session, int(expires)).encode(), signature.encode()):
        raise HTTPException(401, "expected the token of this upload, found another")
    folder = sessions_folder(repository) / session
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sign(secret: bytes, repository: Repository, session: str, expires: int) -> str:
    message = f"xet {repository.repo_id} {session} {expires}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def sessions_folder(repository: Repository) -> Path:
    return xet_folder(repository.hub) / repository.folder.name


def forget_sessions(repository: Repository, contents: Iterable[str]) -> None:
    """Remove the xorbs of uploads whose files are committed; those that nobody comes back for are swept."""
    done, folder = {f"{sha256}.done" for sha256 in contents}, sessions_folder(repository)
    for session in list(folder.iterdir()) if folder.is_dir() else []:
        with suppress(OSError):
            if done & set(os.listdir(session)):
                shutil.rmtree(session, ignore_errors=True)


def assemble_files(repository: Repository, session: Path, shard: bytes, area: Path) -> None:
    """Make the files that a shard describes from the xorbs of the upload."""
    for ranges in read_shard(shard):
        size = sum(part.size for part in ranges)
        hasher, file = Hasher(size), area / uuid.uuid4().hex
        with open(file, "wb") as stream:
            for part in ranges:
                for chunk in _read_chunks(session, part):
                    hasher.update(chunk)
                    stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        sha256 = hasher.sha256.hexdigest()
        hasher.check(sha256)  # the size: the commit asks for the content by its hash
        keep_upload(repository, file, sha256, hasher.oid.hexdigest())
        (session / f"{sha256}.done").touch()


def read_shard(shard: bytes) -> list[list[ChunkRange]]:
    """The files of a shard, each as the ranges of chunks that make it up."""
    try:
        if struct.unpack_from("<Q", shard, 32) != (_SHARD_VERSION,):
            raise ValueError(f"expected a shard of version {_SHARD_VERSION}, found another")
        files, position = [], _ENTRY
        while shard[position : position + 32] != _END:
            flags, count = struct.unpack_from("<II", shard, position + 32)
            position += _ENTRY
            files.append([_read_range(shard, position + index * _ENTRY) for index in range(count)])
            records = count * (2 if flags & _HAS_VERIFICATION else 1) + (1 if flags & _HAS_METADATA else 0)
            position += records * _ENTRY
        return files
    except struct.error as error:
        raise ValueError(f"expected a whole shard, found that it ends early: {error}") from error


def _read_range(shard: bytes, position: int) -> ChunkRange:
    *words, _flags, size, start, end = struct.unpack_from("<4Q4I", shard, position)
    return ChunkRange("".join(f"{word:016x}" for word in words), size, start, end)


def _read_chunks(session: Path, part: ChunkRange) -> Iterator[bytes]:
    file = session / part.xorb
    if not file.is_file():
        raise ValueError(f"expected the xorb {part.xorb[:16]}… before the shard that names it, found none")
    offsets = _chunk_offsets(file)
    if not part.start < part.end <= len(offsets):
        raise ValueError(f"expected chunks 0 to {len(offsets)} of a xorb, found {part.start} to {part.end}")
    with open(file, "rb") as stream:
        stream.seek(offsets[part.start])
        for _ in range(part.start, part.end):
            yield _read_chunk(stream)


@lru_cache(maxsize=8)
def _chunk_offsets(xorb: Path) -> list[int]:
    """Where each chunk begins; what follows the last one does not begin like a chunk."""
    offsets, end = [], xorb.stat().st_size
    with open(xorb, "rb") as stream:
        position = 0
        while len(header := stream.read(8)) == 8 and header[0] == 0:
            following = position + 8 + int.from_bytes(header[1:4], "little")
            if following > end:
                break
            offsets.append(position)
            position = following
            stream.seek(position)
    return offsets


def _read_chunk(stream: BinaryIO) -> bytes:
    header = stream.read(8)
    packed, size = int.from_bytes(header[1:4], "little"), int.from_bytes(header[5:8], "little")
    data, scheme = stream.read(packed), header[4]
    if scheme == 0:
        chunk = data
    elif scheme in (1, 2):
        chunk = _unpack(data, size)
        chunk = _ungroup(chunk) if scheme == 2 else chunk
    else:
        raise ValueError(f"expected chunks that are plain, LZ4 or grouped LZ4, found scheme {scheme}")
    if len(chunk) != size:
        raise ValueError(f"expected a chunk of {size:,} bytes, found {len(chunk):,}")
    return chunk


def _unpack(data: bytes, size: int) -> bytes:
    import lz4.frame

    try:
        # Never more than announced, whatever the data would unpack to.
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size))
    except RuntimeError as error:
        raise ValueError(f"expected LZ4 in a chunk, found that it cannot be unpacked: {error}") from error


def _ungroup(grouped: bytes) -> bytes:
    """Undo the grouping of numbers by byte: all first bytes of four, then all second ones, and so on."""
    chunk, position = bytearray(len(grouped)), 0
    for place in range(4):
        length = len(range(place, len(grouped), 4))
        chunk[place::4] = grouped[position : position + length]
        position += length
    return bytes(chunk)


__all__ = [
    "LARGEST_SHARD",
    "LARGEST_XORB",
    "assemble_files",
    "forget_sessions",
    "grant_upload",
    "open_session",
    "read_shard",
]
