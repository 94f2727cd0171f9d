"""Texts that stand in two places, word for word or nearly so.

Word for word: the same text but for case, spaces and the ways Unicode has to write one character. Nearly: most runs of
five words (shingles) of the shorter text stand in the longer, as in a copy that was reworded, cut or added to.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from .labelled_data import LabelledTexts

if TYPE_CHECKING:
    from numpy import ndarray

_SHINGLE = 5  # words
# Which share of the shorter text's shingles must stand in the longer. On 100,000 French reviews, pairs above it were
# copies, and pairs below 0.5 had a set phrase, a synopsis or a quotation in common.
_CONTAINMENT = 0.6
# Shorter texts are made of set phrases ("livraison rapide, produit conforme"): theirs must be the same, all of them.
_SHORT = 20
# Of the texts that have a shingle, as many are candidates: with all of those that have a set phrase, the number of
# pairs would grow with the square of the texts.
_CANDIDATES = 50
_CHUNK = 2_000  # texts compared at once: bounds the memory that pairs take

# Scripts that put no spaces between words: each character counts as one.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
# Fixed odd multipliers, one for each place of a shingle: its sum with word numbers is a 64-bit hash.
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)


@dataclass(frozen=True)
class Match:
    """A row, the row of the other texts that it repeats, and the share of shingles in common."""

    row: int
    other: int
    similarity: float = 1.0


@dataclass(frozen=True)
class Overlap:
    """The rows that stand in the other texts too, each once; `near` has none that `exact` has."""

    exact: list[Match]
    near: list[Match]

    @property
    def rows(self) -> list[int]:
        return sorted(match.row for match in (*self.exact, *self.near))


def find_overlap(texts: Sequence[str], other: Sequence[str]) -> Overlap:
    """The rows of `texts` that `other` has too, each with the one it is most like, the first of equals."""
    keys = [normalise_text(text) for text in texts]
    first = _first_rows([normalise_text(text) for text in other])
    exact = [Match(row, first[key]) for row, key in enumerate(keys) if key in first]
    rest = [row for row, key in enumerate(keys) if key and key not in first]
    kept = list(first.values())
    numbers = _number_words()
    near = _near_matches(_shingle([keys[row] for row in rest], numbers), _shingle(list(first), numbers))
    return Overlap(exact, [Match(rest[row], kept[twin], share) for row, twin, share in near])


def find_duplicates(texts: Sequence[str]) -> Overlap:
    """The rows that repeat an earlier one."""
    keys = [normalise_text(text) for text in texts]
    first = _first_rows(keys)
    exact = [Match(row, first[key]) for row, key in enumerate(keys) if key and first[key] != row]
    kept = list(first.values())
    shingles = _shingle(list(first), _number_words())
    near = _near_matches(shingles, shingles, earlier_only=True)
    return Overlap(exact, [Match(kept[row], kept[twin], share) for row, twin, share in near])


def remove_overlap(train: LabelledTexts, others: Sequence[LabelledTexts]) -> LabelledTexts:
    """The training rows that stand in none of the others, exactly or nearly."""
    leaked = {row for other in others for row in find_overlap(train.texts, other.texts).rows}
    if len(leaked) == len(train):
        raise ValueError(
            f"expected training texts of their own in {train.path}, found each of its {len(train):,} rows in "
            f"{' or '.join(str(other.path) for other in others)} too; give other files"
        )
    return train.select([row for row in range(len(train)) if row not in leaked])


def normalise_text(text: str) -> str:
    """What two texts that are the same have in common; empty for a blank one."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _first_rows(keys: Sequence[str]) -> dict[str, int]:
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        if key:  # blank texts are counted as such, not as copies of each other
            first.setdefault(key, row)
    return first


def _number_words() -> defaultdict[str, int]:
    """Numbers for words, given as they are met. 0 stands for no word."""
    return defaultdict(count(1).__next__)


@dataclass(frozen=True)
class _ShingleSets:
    """The shingles of many texts, as 64-bit hashes: those of text t are `hashes[starts[t] : starts[t + 1]]`, sorted."""

    hashes: ndarray  # uint64
    starts: ndarray  # int64, one more than there are texts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, text: int) -> ndarray:
        return self.hashes[self.starts[text] : self.starts[text + 1]]


def _shingle(keys: Sequence[str], numbers: defaultdict[str, int]) -> _ShingleSets:
    import numpy as np

    hashes, sizes = [np.empty(0, np.uint64)], [np.zeros(1, np.int64)]
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        words, lengths = array("Q"), []
        for key in chunk:
            found = [numbers[word] for word in _WORD.findall(key)]
            # A text of fewer words is one shingle, filled up; one without words has none.
            found += [0] * (_SHINGLE - len(found) if found else 0)
            words.extend(found)
            lengths.append(len(found))
        flat = np.frombuffer(words, np.uint64)  # (words of the chunk,)
        owners = np.repeat(np.arange(len(chunk)), lengths)
        windows = max(len(flat) - _SHINGLE + 1, 0)
        values = np.zeros(windows, np.uint64)
        for place, multiplier in enumerate(_MULTIPLIERS):
            values += flat[place : place + windows] * np.uint64(multiplier)
        inside = owners[:windows] == owners[_SHINGLE - 1 :][:windows]  # not across the end of a text
        values, owners = values[inside], owners[:windows][inside]
        order = np.lexsort((values, owners))
        values, owners = values[order], owners[order]
        new = np.ones(len(values), bool)
        new[1:] = (values[1:] != values[:-1]) | (owners[1:] != owners[:-1])
        hashes.append(values[new])
        sizes.append(np.bincount(owners[new], minlength=len(chunk)))
    return _ShingleSets(np.concatenate(hashes), np.cumsum(np.concatenate(sizes)))


def _near_matches(
    texts: _ShingleSets, others: _ShingleSets, earlier_only: bool = False
) -> Iterator[tuple[int, int, float]]:
    """Each text that is near another one: its row, the row of the one it is most like, and how like it is."""
    import numpy as np

    best: dict[int, tuple[float, int]] = {}
    for row, other in _candidates(texts, others, earlier_only):
        a, b = texts.of(row), others.of(other)
        share = _similarity(len(np.intersect1d(a, b, assume_unique=True)), len(a), len(b))
        if share and (share, -other) > best.get(row, (0.0, 0)):
            best[row] = (share, -other)
    for row in sorted(best):
        share, other = best[row]
        yield row, -other, share


def _similarity(shared: int, size: int, other_size: int) -> float:
    """The share of the smaller set that is in the larger one too; 0 if it is too little to be a copy."""
    smaller, larger = sorted((size, other_size))
    near = shared >= _CONTAINMENT * smaller if smaller >= _SHORT else shared == larger
    return shared / smaller if near else 0.0


def _candidates(texts: _ShingleSets, others: _ShingleSets, earlier_only: bool) -> Iterator[tuple[int, int]]:
    """Pairs that may have enough shingles in common for `_similarity` to be worth counting."""
    import numpy as np

    order = np.argsort(others.hashes, kind="stable")  # so the owners of a shingle stay in the order of the texts
    owners = np.repeat(np.arange(len(others)), np.diff(others.starts))[order]
    ordered = others.hashes[order]
    left = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    index, found = ordered[left], np.diff(left, append=len(ordered))
    if earlier_only:  # texts are compared with themselves: what one text alone has leads nowhere
        index, left, found = index[found > 1], left[found > 1], found[found > 1]
    sizes, other_sizes = np.diff(texts.starts), np.diff(others.starts)
    for start in range(0, len(texts), _CHUNK):
        end = min(start + _CHUNK, len(texts))
        hashes = texts.hashes[texts.starts[start] : texts.starts[end]]
        rows = np.repeat(np.arange(start, end), sizes[start:end])
        at, hits = _look_up(hashes, index)
        rows, first, number = rows[hits], left[at], found[at]
        # How many shingles of each row have more texts than are looked at: each may be shared unseen.
        unseen = np.bincount(rows - start, number > _CANDIDATES, minlength=end - start)
        number = np.minimum(number, _CANDIDATES)
        offsets = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        pairs = np.repeat(rows, number) * len(others) + owners[np.repeat(first, number) + offsets]
        pairs, shared = np.unique(pairs, return_counts=True)
        row, other = np.divmod(pairs, max(len(others), 1))
        likely = shared + unseen[row - start] >= _CONTAINMENT * np.minimum(sizes[row], other_sizes[other])
        if earlier_only:
            likely &= other < row
        yield from zip(row[likely].tolist(), other[likely].tolist(), strict=True)


def _look_up(values: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
    """Where in the sorted index the values are that are there, and which of the values those are."""
    import numpy as np

    order = np.argsort(values)  # searching in order keeps to the cache: several times faster than at random
    at = np.searchsorted(index, values[order])
    at[at == len(index)] = 0
    there = index[at] == values[order] if len(index) else np.zeros(len(values), bool)
    return at[there], order[there]


__all__ = ["Match", "Overlap", "find_duplicates", "find_overlap", "normalise_text", "remove_overlap"]
