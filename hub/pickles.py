"""Files that run code when they are loaded: pickles, by their name or by their first bytes."""

from __future__ import annotations

import os
import zipfile
from pathlib import PurePosixPath

EXTENSIONS = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".dill"}
_COMPRESSION = {".gz", ".bz2", ".xz", ".zst", ".lz4"}

# `Trainer` writes its own arguments beside the weights, as a pickle that no loader reads: left out, not refused.
LEFT_OUT = "training_args.bin"


def why_pickle(path: str, file: str | os.PathLike[str]) -> str | None:
    """The reason to take the file for a pickle, or None. `path` is its name in the repository."""
    if reason := why_pickle_by_name(path):
        return reason
    with open(file, "rb") as stream:
        head = stream.read(16)
    if _starts_a_pickle(head):
        return "begins like a pickle"
    if head.startswith(b"PK\x03\x04") and _zip_holds_a_pickle(file):
        return "is an archive with a pickle inside, as torch.save writes"
    return None


def why_pickle_by_name(path: str) -> str | None:
    name = PurePosixPath(path.lower())
    if name.suffix in _COMPRESSION:
        name = name.with_suffix("")
    return f"ends in {name.suffix}" if name.suffix in EXTENSIONS else None


def _starts_a_pickle(head: bytes) -> bool:
    if not (len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5):  # the opcode PROTO and a version
        return False
    # A safetensors file begins with the length of its header as 8 bytes, then "{": 640 is b"\x80\x02" and zeros.
    return not (head[3:8] == bytes(5) and head[8:9] == b"{")


def _zip_holds_a_pickle(file: str | os.PathLike[str]) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            return any(name.lower().endswith((".pkl", ".pickle")) for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return True  # torch reads archives that Python does not


__all__ = ["EXTENSIONS", "LEFT_OUT", "why_pickle", "why_pickle_by_name"]
