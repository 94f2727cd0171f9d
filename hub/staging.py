"""Where things are written before they are published: out of sight, and swept when their writer is dead.

Everything is below `.locks/greffe` of the hub: `.locks` is the one folder that `scan_cache_dir` passes over, and it is
on the same disk, so that publishing is a rename. A staging area is held by a file lock, which the system releases even
after `kill -9`; an area whose lock is free belongs to nobody, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import StorageError

# Seconds that an upload waits for its commit: a client may be slow, but not for days.
LIFETIME = 24 * 3600
LOCK_MODE = 0o664  # as huggingface_hub: a team may share the directory through a group


def private_folder(hub: Path) -> Path:
    return hub / ".locks" / "greffe"


def uploads_folder(hub: Path, folder_name: str) -> Path:
    """Where large files of a repository wait for the commit that names them."""
    return private_folder(hub) / "uploads" / folder_name


def xet_folder(hub: Path) -> Path:
    """Where what arrives by the Xet protocol waits to become files: a folder for each repository, then each upload."""
    return private_folder(hub) / "xet"


@contextlib.contextmanager
def staging_area(hub: Path) -> Iterator[Path]:
    """A folder of one's own, gone at the end whatever happens."""
    areas = private_folder(hub) / "staging"
    areas.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    with _held(areas / f"{name}.lock"):
        area = areas / name
        area.mkdir()
        try:
            yield area
        finally:
            shutil.rmtree(area, ignore_errors=True)


@contextlib.contextmanager
def _held(file: Path) -> Iterator[None]:
    with FileLock(file, mode=LOCK_MODE):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows cannot remove an open file: the next sweep does
                file.unlink()


def sweep(hub: Path) -> None:
    """Remove the areas of writers that were killed, and uploads that nobody committed."""
    for area in [entry for entry in _entries(private_folder(hub) / "staging") if entry.suffix != ".lock"]:
        with contextlib.suppress(Timeout, OSError), FileLock(area.with_suffix(".lock"), timeout=0, mode=LOCK_MODE):
            shutil.rmtree(area, ignore_errors=True)
            area.with_suffix(".lock").unlink(missing_ok=True)
    oldest = time.time() - LIFETIME
    sessions = [session for folder in _entries(xet_folder(hub)) for session in _entries(folder)]
    for session in sessions:
        with contextlib.suppress(OSError):
            if session.stat().st_mtime < oldest:
                shutil.rmtree(session, ignore_errors=True)
    uploads = [file for folder in _entries(private_folder(hub) / "uploads") for file in _entries(folder)]
    # A lock without an area is of a writer that was killed between the two, or of one that is between them now.
    locks = [entry for entry in _entries(private_folder(hub) / "staging") if not entry.with_suffix("").exists()]
    for file in [*locks, *uploads]:
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


@contextlib.contextmanager
def repository_lock(hub: Path, folder_name: str) -> Iterator[None]:
    """One writer at a time for a repository; the others wait for their turn."""
    locks = private_folder(hub)
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{folder_name}.lock", mode=LOCK_MODE):
        yield


def write_file(file: Path, text: str, area: Path) -> None:
    """The whole text or the old one, also after a power cut. The half-written file is in `area`, out of sight."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = area / uuid.uuid4().hex
    with open(temporary, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Ask the disk to keep the names in a folder."""
    if os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(hub: Path) -> Iterator[None]:
    """Say in plain words what a full disk or a read-only folder did, which is nothing."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        kept = "; the hub is as it was before"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            found = f"expected room in {hub}, found the disk full ({error.strerror}); free some space and try again"
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR) and _is_of(hub, error):
            found = (
                f"expected a folder that can be written in {hub}, found {error.strerror or error} at "
                f"{error.filename or hub}; choose another place with --hub or GREFFE_HUB"
            )
        else:
            raise
        raise StorageError(found + kept) from error


def _is_of(hub: Path, error: OSError) -> bool:
    """Whether the error is about the hub, or about a folder above it, and not about what is being pushed."""
    if not isinstance(error.filename, str):
        return True
    place = Path(os.path.abspath(error.filename))
    return place.is_relative_to(hub) or hub.is_relative_to(place)


__all__ = [
    "LIFETIME",
    "explained",
    "private_folder",
    "repository_lock",
    "staging_area",
    "sweep",
    "sync_folder",
    "uploads_folder",
    "write_file",
    "xet_folder",
]
