"""Checkpoints that are complete or not there: written aside, synced, renamed, with a manifest of sizes and hashes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

from greffe.tokenization.output_folder import sync

MANIFEST = "manifest.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def partial_folder(run_folder: Path, step: int) -> Path:
    """Where a checkpoint is written before it is one; the dot keeps it out of every listing of checkpoints."""
    return run_folder / f".checkpoint-{step}.partial"


def publish_checkpoint(partial: Path, run_folder: Path, step: int) -> Path:
    """Turn what was written aside into a checkpoint: manifest, everything synced to disk, then one rename."""
    manifest = {
        str(path.relative_to(partial)): {"size": path.stat().st_size, "sha256": _hash(path)}
        for path in sorted(partial.rglob("*"))
        if path.is_file()
    }
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for path in [*partial.rglob("*"), partial]:
        sync(path)
    final = run_folder / f"checkpoint-{step}"
    if final.exists():  # of an earlier run that went further than the checkpoint it was resumed from
        _remove(final)
    partial.rename(final)
    sync(run_folder)
    return final


def find_fault(checkpoint: Path) -> str | None:
    """Why a checkpoint cannot be used, or None: each file of its manifest is there, with its size and hash."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text())
    except (OSError, ValueError):
        return f"it has no readable {MANIFEST}"
    for name, expected in manifest.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["size"]:
            return f"{name} has {path.stat().st_size:,} bytes, expected {expected['size']:,}"
        if _hash(path) != expected["sha256"]:
            return f"the content of {name} has changed"
    return None


def latest_complete_checkpoint(run_folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that passes its check, and a sentence for each newer one that does not."""
    skipped: list[str] = []
    for checkpoint in reversed(list_checkpoints(run_folder)):
        fault = find_fault(checkpoint)
        if fault is None:
            return checkpoint, skipped
        skipped.append(f"{checkpoint.name} was skipped: {fault}")
    return None, skipped


def list_checkpoints(run_folder: Path) -> list[Path]:
    """All of them, complete or not, oldest first."""
    found = [path for path in run_folder.glob("checkpoint-*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("checkpoint-")))


def remove_old_checkpoints(run_folder: Path, keep: int) -> None:
    """Keep the newest ones."""
    for checkpoint in list_checkpoints(run_folder)[:-keep]:
        _remove(checkpoint)


def remove_skipped_checkpoints(run_folder: Path, taken: Path | None) -> None:
    """Those after the one that was taken, all of them damaged. They would count as the newest, and outlive whole ones
    of the steps before."""
    found = list_checkpoints(run_folder)
    for checkpoint in found if taken is None else found[found.index(taken) + 1 :]:
        _remove(checkpoint)


def _remove(checkpoint: Path) -> None:
    """Renamed away first: a removal that is interrupted leaves no half."""
    stale = checkpoint.with_name(f".{checkpoint.name}.stale")
    shutil.rmtree(stale, ignore_errors=True)
    checkpoint.rename(stale)
    shutil.rmtree(stale)


def remove_leftovers(run_folder: Path) -> None:
    """What an interrupted write or removal left behind; nothing reads it."""
    for pattern in (".*.partial", ".checkpoint-*.stale"):
        for path in run_folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
