"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path


def check_output_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a folder that already holds something."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"expected a new or empty folder, found the file {folder}; choose another --output")
    if path.is_dir() and any(path.iterdir()):
        found = sorted(entry.name for entry in path.iterdir())
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        raise FileExistsError(
            f"expected a new or empty folder, found {shown} in {folder}; choose another --output, or remove it first"
        )


def write_folder(folder: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a folder beside the final one, then rename it: a failure or a kill leaves no half of it."""
    check_output_folder(folder)
    final = Path(folder).resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}.partial")
    temporary.mkdir()
    try:
        write(temporary)
        for path in sorted(temporary.rglob("*")):
            sync(path)
        sync(temporary)
        if final.is_dir():
            final.rmdir()  # empty; one that was filled meanwhile is refused here
        temporary.rename(final)
        sync(final.parent)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sync(path: Path) -> None:
    """Ask the disk to keep it: without this, a power cut after the rename can leave the name with empty files."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["check_output_folder", "sync", "write_folder"]
