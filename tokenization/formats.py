"""What a file holds, told by its name."""

from __future__ import annotations

from pathlib import Path

from .text_stream import COMPRESSIONS

TEXT_FORMATS = (".txt", ".jsonl", ".csv")
# Compressed inside: an archive of one could not be read in pieces. `datasets` saves its rows as .arrow.
TABLE_FORMATS = (".parquet", ".arrow")


def format_of(path: str | Path) -> str | None:
    """The format that a name tells, `.txt` for `a.txt.gz`; None when it is not one that is read."""
    path = Path(path)
    if path.suffix.lower() in TABLE_FORMATS:
        return path.suffix.lower()
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return name.suffix.lower() if name.suffix.lower() in TEXT_FORMATS else None


__all__ = ["TABLE_FORMATS", "TEXT_FORMATS", "format_of"]
