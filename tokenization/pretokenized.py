"""The reference experiment's files: a dictionary, and reviews already cut into pieces, with their labels.

`dict.txt` has a piece a line, followed by a count that is not used; `NAME.review.spm` a review a line, its pieces
separated by spaces; `NAME.label` a class a line. The ids are those of the experiment: four special tokens, then the
lines of the dictionary.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# In the order of their ids.
SPECIAL_TOKENS = {"bos_token": "<sos>", "pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<oov>"}
_BEGINNING, _UNKNOWN = 0, 3
_WORD_START = "▁"  # SentencePiece's sign for a space


@dataclass
class Pretokenized:
    """Reviews as ids, the class of each, and the text that its pieces spell."""

    input_ids: list[list[int]]
    labels: list[int]
    texts: list[str]


def read_dictionary(path: str | os.PathLike[str]) -> dict[str, int]:
    """The experiment's vocabulary, piece to id, special tokens included."""
    vocabulary = {token: token_id for token_id, token in enumerate(SPECIAL_TOKENS.values())}
    for number, line in enumerate(_read_lines(Path(path)), start=1):
        piece, separator, count = line.rpartition(" ")
        if not (separator and piece and count.isdigit()):
            raise ValueError(f"expected a piece, a space and a count in {path}, line {number:,}, found {line!r:.60}")
        if piece in vocabulary:
            raise ValueError(f"expected each piece once in {path}, found {piece!r} again on line {number:,}")
        vocabulary[piece] = len(vocabulary)
    if len(vocabulary) == len(SPECIAL_TOKENS):
        raise ValueError(f"expected a piece a line in {path}, found an empty file")
    return vocabulary


def read_pretokenized(
    name: str | os.PathLike[str],
    dictionary: str | os.PathLike[str] | dict[str, int],
    *,
    add_special_tokens: bool = True,
) -> Pretokenized:
    """The reviews and labels of `NAME.review.spm` and `NAME.label`; pieces that the dictionary lacks become `<oov>`.

    The ids are those that the imported tokenizer gives the same reviews, which start with `<sos>`; without
    `add_special_tokens` they are the pieces' alone.
    """
    vocabulary = dictionary if isinstance(dictionary, dict) else read_dictionary(dictionary)
    reviews, labels = Path(f"{os.fspath(name)}.review.spm"), Path(f"{os.fspath(name)}.label")
    start = [_BEGINNING] if add_special_tokens else []
    # Split at spaces only: a piece may be a no-break space, which str.split() would drop.
    pieces = [[piece for piece in line.split(" ") if piece] for line in _read_lines(reviews)]
    input_ids = [[*start, *(vocabulary.get(piece, _UNKNOWN) for piece in review)] for review in pieces]
    classes = [_read_label(line, labels, number) for number, line in enumerate(_read_lines(labels), start=1)]
    if len(input_ids) != len(classes):
        raise ValueError(
            f"expected a label for each review, found {len(input_ids):,} reviews in {reviews} and {len(classes):,} "
            f"labels in {labels}"
        )
    if not classes:
        raise ValueError(f"expected at least one review, found none in {reviews}")
    texts = ["".join(review).replace(_WORD_START, " ").removeprefix(" ") for review in pieces]
    return Pretokenized(input_ids, classes, texts)


def _read_label(line: str, path: Path, number: int) -> int:
    if not (line.isascii() and line.isdigit()):
        raise ValueError(f"expected a class number (0, 1, …) in {path}, line {number:,}, found {line!r:.40}")
    return int(line)


def _read_lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"expected the file {path}, found none")
    content = path.read_bytes()
    try:
        lines = content.decode("utf-8").split("\n")  # not splitlines(), which would also cut inside a piece
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected UTF-8 in {path}, found byte 0x{content[error.start]:02x} at position {error.start:,}; give the "
            "experiment's own files"
        ) from error
    if lines[-1] == "":
        lines.pop()  # after the last line's end
    return [line.removesuffix("\r") for line in lines]


__all__ = ["SPECIAL_TOKENS", "Pretokenized", "read_dictionary", "read_pretokenized"]
