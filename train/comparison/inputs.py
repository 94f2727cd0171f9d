"""What a folder of several stages was made from: a stage that is finished is not reused where that has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..run_folder import write_json
from .words import join

INPUTS = "inputs.json"


def check_inputs(folder: Path, inputs: dict[str, Any]) -> None:
    """Note in a new folder what it is made from; refuse one that was made from something else or is no new folder."""
    path, now = folder / INPUTS, json.loads(json.dumps(inputs))
    content = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    content.discard(f".{INPUTS}.partial")
    if not path.is_file():
        if content:
            raise FileExistsError(
                f"expected a new or empty folder, found {sorted(content)[:5]} in {folder}; choose another --output"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, now)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if changed:
        raise FileExistsError(
            f"expected what {folder} was made from, found another {join(changed)}; choose another --output"
        )


def fingerprint_files(sources: Iterable[Any]) -> str:
    """The hash of some files, one after the other, whatever their names; of what is no file here, that of its name."""
    digest = hashlib.sha256()
    for source in sources:
        if not isinstance(source, Path):
            digest.update(str(source).encode())
            continue
        with source.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


__all__ = ["check_inputs", "fingerprint_files"]
