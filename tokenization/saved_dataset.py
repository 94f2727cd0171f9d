"""A folder that `datasets` has saved, with `Dataset.save_to_disk` or `DatasetDict`'s: which files hold its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# The files that tell such a folder, and that of several splits.
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def find_data_files(folder: Path) -> list[Path] | None:
    """The files of a saved dataset in the order of its rows, those of `train` where it has splits; else None.

    The state of the dataset names them: beside them there may be others, which are results that `datasets` caches.
    """
    if (folder / _SPLITS).is_file():
        splits = _read(folder / _SPLITS, "splits")
        if "train" not in splits:
            raise ValueError(
                f"expected a split 'train' in the dataset saved in {folder}, found {splits}; pass the folder of one, "
                f"such as {folder / str(next(iter(splits), 'NAME'))}"
            )
        folder = folder / "train"
    elif not ((folder / _STATE).is_file() and (folder / _INFO).is_file()):
        return None
    files = [folder / entry["filename"] for entry in _read(folder / _STATE, "_data_files")]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"expected {missing[0]} in the dataset saved in {folder}, found none; save it again")
    return files


def _read(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"expected {key!r} in {path}, found {type(error).__name__} ({error}); save the dataset again"
        ) from error


__all__ = ["find_data_files"]
