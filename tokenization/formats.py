"""What a file holds, told by its name."""

from __future__ import annotations

from pathlib import Path

from .text_stream import COMPRESSIONS

TEXT_FORMATS = (".txt", ".jsonl", ".csv")


def format_of(path: str | Path) -> str | None:
    """The format that a name tells, `.txt` for `a.txt.gz`; None when it is not one that is read."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        return ".parquet"  # compressed inside: an archive of one could not be read in pieces
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return name.suffix.lower() if name.suffix.lower() in TEXT_FORMATS else None


__all__ = ["TEXT_FORMATS", "format_of"]
