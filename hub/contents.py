"""What of a folder goes into the hub: everything but leftovers of tools, and nothing that is dangerous to take."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from .errors import PickleRefusedError
from .names import check_file_path
from .pickles import LEFT_OUT, why_pickle


@dataclass(frozen=True)
class Contents:
    """The files of a folder by their path in the repository, and the paths that were left out."""

    files: dict[str, Path]
    left_out: list[str]


def read_contents(folder: str | os.PathLike[str], allow_pickle: bool = False) -> Contents:
    """Look at every name and link of a folder before anything is written."""
    root = Path(folder)
    if not root.is_dir():
        found = "a file" if root.exists() else "no such folder"
        raise FileNotFoundError(f"expected a folder to push in {folder}, found {found}")
    files: dict[str, Path] = {}
    left_out: list[str] = []
    _walk(root, root.resolve(), "", files, left_out)
    if not files:
        raise FileNotFoundError(f"expected files to push in {folder}, found none")
    if not allow_pickle:
        if LEFT_OUT in files:
            del files[LEFT_OUT]
            left_out.append(LEFT_OUT)
        refuse_pickles(files)
    return Contents(files, sorted(left_out))


def _walk(folder: Path, root: Path, prefix: str, files: dict[str, Path], left_out: list[str]) -> None:
    for entry in sorted(folder.iterdir()):
        path = prefix + entry.name
        if _is_leftover(entry):
            left_out.append(path + "/" * entry.is_dir())
            continue
        check_file_path(path)
        if entry.is_symlink():
            _check_link(entry, root, path)
        if entry.is_dir():
            _walk(entry, root, f"{path}/", files, left_out)
        elif stat.S_ISREG(entry.stat().st_mode):
            files[path] = entry
        else:
            raise ValueError(f"expected files and folders in {root}, found {path}, a device or a pipe; remove it")


def _is_leftover(entry: Path) -> bool:
    """Hidden files, compiled code, and the checkpoints that `Trainer` keeps beside the model."""
    checkpoint = entry.name.startswith("checkpoint-") and entry.name[11:].isdigit()
    return entry.name.startswith(".") or entry.name == "__pycache__" or (checkpoint and entry.is_dir())


def _check_link(link: Path, root: Path, path: str) -> None:
    target = os.path.realpath(link)
    if not Path(target).is_relative_to(root) or not os.path.exists(target):
        raise ValueError(
            f"expected links inside {root}, found {path} pointing to {os.readlink(link)}; replace it with the file, as "
            "`cp --dereference` does"
        )
    if os.path.isdir(target):
        raise ValueError(f"expected files and folders in {root}, found {path}, a link to a folder; replace it")


def refuse_pickles(files: dict[str, Path]) -> None:
    """Weights as pickles run code when they are loaded; safetensors cannot."""
    pickles = [f"{path} ({reason})" for path, file in files.items() if (reason := why_pickle(path, file))]
    if pickles:
        shown = ", ".join(pickles[:3]) + (f" and {len(pickles) - 3} more" if len(pickles) > 3 else "")
        raise PickleRefusedError(
            f"expected weights in .safetensors, found {shown}; pickles can run code on whoever loads them: save with "
            "save_pretrained, or pass --allow-pickle"
        )


__all__ = ["Contents", "read_contents", "refuse_pickles"]
