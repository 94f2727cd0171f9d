"""One reader for every kind of text file: a stream of documents, in constant memory, always in the same order."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from .documents import Separator, read_documents
from .formats import TEXT_FORMATS, format_of
from .text_stream import COMPRESSIONS, Errors

_KNOWN = f"a file in {', '.join(TEXT_FORMATS)} (plain or {', '.join(COMPRESSIONS)}) or .parquet"


@dataclass
class Corpus:
    """The documents of some files. Each pass over it reads the files anew, in the same order.

    ```python
    >>> corpus = read_corpus(["novels/", "reviews-*.jsonl.gz"], text_column="body")
    >>> for document in corpus: ...
    ```
    """

    files: list[Path]
    # Where the text is in .jsonl, .csv and .parquet files.
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
        self.total_bytes = sum(path.stat().st_size for path in self.files)

    def __iter__(self) -> Iterator[str]:
        finished, empty = 0, True
        for path in self.files:
            self.bytes_read = finished
            for document, position in read_documents(path, self.text_column, self.separator, self.errors):
                self.bytes_read = finished + position
                if document.strip():  # there is nothing to learn from blank ones
                    empty = False
                    yield document
            finished += path.stat().st_size
        self.bytes_read = finished
        if empty:
            raise ValueError(f"expected at least one document, found only blank text in {_list_files(self.files)}")


def read_corpus(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    text_column: str = "text",
    separator: Separator = "line",
    errors: Errors = "strict",
) -> Corpus:
    """The documents of files, folders and globs. A file that is reached twice is read once, where it came first.

    A folder gives the files of known formats below it, sorted, hidden ones left out. Blank documents are skipped.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not several:
        raise ValueError(f"expected {_KNOWN}, a folder of such files or a glob, found no path")
    unique: dict[Path, Path] = {}
    for path in several:
        for file in _find_files(str(path)):
            unique.setdefault(file.resolve(), file)
    return Corpus(list(unique.values()), text_column, separator, errors)


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
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and format_of(name) is not None:
                yield Path(parent, name)


def _list_files(files: list[Path]) -> str:
    return f"{len(files)} files, {files[0]} the first" if len(files) > 3 else ", ".join(map(str, files))


__all__ = ["Corpus", "read_corpus"]
