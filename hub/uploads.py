"""Large files on their way in: to addresses that only the server can make, in pieces, checked before they count."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from .repository import Repository
from .staging import LIFETIME, uploads_folder

PIECE = 1 << 20


def sign_upload(secret: bytes, address: str, repository: Repository, sha256: str, size: int) -> str:
    """Where to PUT a content. Clients send no token there: the signature is their permission, for this content only."""
    expires = int(time.time()) + LIFETIME
    query = {"size": size, "expires": expires, "signature": _sign(secret, repository, sha256, size, expires)}
    return f"{address}/uploads/{repository.repo_id}/{sha256}?{urlencode(query)}"


def verify_upload(secret: bytes, request: Request, repository: Repository) -> tuple[str, int]:
    """The content's hash and size that a signed address is for."""
    query, sha256 = request.query_params, request.path_params["sha256"]
    try:
        size, expires = int(query["size"]), int(query["expires"])
    except (KeyError, ValueError):
        raise HTTPException(403, "expected a signed address to upload to, found one without its parts") from None
    expected = _sign(secret, repository, sha256, size, expires)
    if expires < time.time() or not hmac.compare_digest(expected.encode(), query.get("signature", "").encode()):
        raise HTTPException(403, "expected an address that this server signed, found another or one that is too old")
    return sha256, size


def _sign(secret: bytes, repository: Repository, sha256: str, size: int, expires: int) -> str:
    message = f"{repository.repo_id} {sha256} {size} {expires}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


async def receive_file(request: Request, repository: Repository, area: Path, sha256: str, size: int) -> None:
    """Write what arrives, hashing it on the way; it counts only if it is what was announced."""
    file = area / uuid.uuid4().hex
    hasher = Hasher(size)
    with open(file, "wb") as stream:

        def write(piece: bytes) -> None:
            hasher.update(piece)
            if hasher.seen > size:
                raise ValueError(f"expected {size:,} bytes, found more")
            stream.write(piece)

        await receive_pieces(request, write)
        stream.flush()
        await run_in_threadpool(os.fsync, stream.fileno())
    hasher.check(sha256)
    keep_upload(repository, file, sha256, hasher.oid.hexdigest())


async def receive_pieces(request: Request, take: Callable[[bytes], None]) -> None:
    """Give a body to a function that blocks, in pieces of about a megabyte; the client waits meanwhile."""
    piece = bytearray()
    async for arrived in request.stream():
        piece += arrived
        if len(piece) >= PIECE:
            await run_in_threadpool(take, bytes(piece))
            piece.clear()
    if piece:
        await run_in_threadpool(take, bytes(piece))


async def receive_limited(request: Request, file: Path, largest: int) -> None:
    """Write what arrives to a file, up to a size."""
    seen = 0
    with open(file, "wb") as stream:

        def write(piece: bytes) -> None:
            nonlocal seen
            seen += len(piece)
            if seen > largest:
                raise HTTPException(413, f"expected at most {largest:,} bytes, found more")
            stream.write(piece)

        await receive_pieces(request, write)


class Hasher:
    """SHA-256 and Git's hash of a content of known size."""

    def __init__(self, size: int):
        self.size, self.seen = size, 0
        self.sha256 = hashlib.sha256()
        self.oid = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def update(self, piece: bytes) -> None:
        self.seen += len(piece)
        self.sha256.update(piece)
        self.oid.update(piece)

    def check(self, sha256: str) -> None:
        if self.seen != self.size or self.sha256.hexdigest() != sha256:
            raise ValueError(
                f"expected {self.size:,} bytes of SHA-256 {sha256[:16]}…, found {self.seen:,} of "
                f"{self.sha256.hexdigest()[:16]}…; it was damaged on the way"
            )


def keep_upload(repository: Repository, file: Path, sha256: str, oid: str) -> None:
    """Put a checked content where the commit that names it looks; both hashes are its name."""
    folder = uploads_folder(repository.hub, repository.folder.name)
    folder.mkdir(parents=True, exist_ok=True)
    os.replace(file, folder / f"{sha256}.{oid}")


__all__ = ["Hasher", "keep_upload", "receive_file", "receive_limited", "receive_pieces", "sign_upload", "verify_upload"]
