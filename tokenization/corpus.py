"""One reader for every kind of text: a stream of documents, in constant memory, always in the same order.

Text comes from files, from folders that `datasets` has saved, and from datasets of the Hub.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from .documents import Separator, read_documents
from .formats import TEXT_FORMATS, format_of
from .hub_dataset import HubDataset, find_hub_dataset, looks_like_name
from .saved_dataset import find_data_files
from .text_stream import COMPRESSIONS, Errors

_KNOWN = f"a file in {', '.join(TEXT_FORMATS)} (plain or {', '.join(COMPRESSIONS)}) or .parquet"


@dataclass
class Corpus:
    """The documents of some sources. Each pass over it reads them anew, in the same order.

    ```python
    >>> corpus = read_corpus(["novels/", "reviews-*.jsonl.gz"], text_column="body")
    >>> for document in corpus: ...
    ```
    """

    sources: list[Path | HubDataset]
    # Where the text is in .jsonl, .csv and .parquet files, and in datasets.
    text_column: str = "text"
    # What separates the documents of a .txt file: each line is one, or runs of lines between blank ones are.
    separator: Separator = "line"
    # Bytes that are not UTF-8: "strict" is an error that names file and position, "replace" reads them as U+FFFD.
    errors: Errors = "strict"
    # How far the current pass is, in bytes as they are on disk; `total_bytes` when it is over.
    bytes_read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name, value, choices in (("separator", self.separator, Separator), ("errors", self.errors, Errors)):
            if value not in get_args(choices):
                raise ValueError(f"expected {name} among {list(get_args(choices))}, found {value!r}")
        is_known = not any(isinstance(source, HubDataset) for source in self.sources)
        # Of all files as they are on disk; None where a dataset of the Hub is among the sources.
        self.total_bytes = sum(map(_size, self.sources)) if is_known else None

    def __iter__(self) -> Iterator[str]:
        finished, empty = 0, True
        for source in self.sources:
            self.bytes_read = finished
            for document, position in self._read(source):
                self.bytes_read = finished + position
                if document.strip():  # there is nothing to learn from blank ones
                    empty = False
                    yield document
            finished += _size(source)
        self.bytes_read = finished
        if empty:
            raise ValueError(f"expected at least one document, found only blank text in {_list_sources(self.sources)}")

    def _read(self, source: Path | HubDataset) -> Iterator[tuple[str, int]]:
        if isinstance(source, HubDataset):
            return ((text, 0) for text in source.read_texts(self.text_column))
        return read_documents(source, self.text_column, self.separator, self.errors)


def read_corpus(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    text_column: str = "text",
    separator: Separator = "line",
    errors: Errors = "strict",
) -> Corpus:
    """The documents of files, folders, globs and datasets. What is reached twice is read once, where it came first.

    A folder gives the files of known formats below it, sorted, hidden ones left out. A folder that
    `Dataset.save_to_disk` wrote gives its rows, one of `DatasetDict.save_to_disk` those of the split `train`; another
    split is a folder of its own. What is none of these and is called `OWNER/NAME` is looked for on the Hub (its split
    `train`), with `:SUBSET` and `@REVISION` after it as needed. Blank documents are skipped.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not several:
        raise ValueError(f"expected {_KNOWN}, a folder of such files or a glob, found no path")
    unique: dict[Path | HubDataset, Path | HubDataset] = {}
    for path in map(str, several):
        if is_hub_name(path):
            dataset = find_hub_dataset(path)
            unique.setdefault(dataset, dataset)
            continue
        for file in _find_files(path):
            unique.setdefault(file.resolve(), file)
    return Corpus(list(unique.values()), text_column, separator, errors)


def is_hub_name(path: str) -> bool:
    """Whether an argument is the name of a dataset on the Hub: what is here, or could be, comes first."""
    return looks_like_name(path) and not os.path.exists(path)


def _find_files(path: str) -> list[Path]:
    """The files that one argument stands for."""
    if os.path.isdir(path):
        files = sorted(_walk(path))
        if not files:
            raise FileNotFoundError(f"expected {_KNOWN} in the folder {path}, found none")
        return files
    if os.path.exists(path):
        if format_of(path) is None:
            raise ValueError(f"expected {_KNOWN}, found {path}; rename it after what it holds")
        return [Path(path)]
    matches = sorted(glob.glob(path, recursive=True))
    if not matches:
        what = "no file that matches it" if glob.has_magic(path) else "no such file"
        raise FileNotFoundError(f"expected {_KNOWN}, a folder of such files or a glob, found {path}: {what}")
    # With ** a folder and its files both match: the folder alone would bring in what the pattern leaves out.
    wanted = [match for match in matches if os.path.isfile(match)] if "**" in path else matches
    return [file for match in wanted for file in _find_files(match)]


def _walk(folder: str) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        saved = find_data_files(Path(parent))
        if saved is not None:
            folders.clear()
            yield from saved
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            # An .arrow file alone is as likely something that a library has cached.
            if not name.startswith(".") and format_of(name) not in (None, ".arrow"):
                yield Path(parent, name)


def _size(source: Path | HubDataset) -> int:
    return source.stat().st_size if isinstance(source, Path) else 0


def _list_sources(sources: list[Path | HubDataset]) -> str:
    return f"{len(sources)} files, {sources[0]} the first" if len(sources) > 3 else ", ".join(map(str, sources))


__all__ = ["Corpus", "is_hub_name", "read_corpus"]
