"""Text that belongs to nobody, shaped like real reviews, for benchmarks that work without any data.

Words are invented syllables, drawn by Zipf's law: the word of rank r (from 0) has a probability proportional to
1 / (r + 2.7). Lengths are log-normal, as those of real reviews are: the median is 100 words and signs, and the standard
deviation of the logarithm is 0.77, both fitted to 3,600 book reviews (mean 135, a twentieth below 28, a twentieth above
360, a ninth above 256).
"""

from __future__ import annotations

import itertools
import math
import random
from functools import cache

import numpy as np

MEDIAN_LENGTH, LENGTH_SIGMA = 100, 0.77
_SHORTEST, _LONGEST = 7, 1800
_VOCABULARY = 60_000
# The signs come as often as words of these ranks.
_SIGNS = {0: ",", 2: "."}
# In each labelled text, so many words that only texts of its label have.
_OPINIONS = 5
LABELS = ("bad", "good")


def invent_texts(number: int, seed: int = 0) -> list[str]:
    """So many texts; the same for the same seed."""
    return [" ".join(words).replace(" ,", ",").replace(" .", ".") for words in _draw_texts(number, seed)]


def invent_labelled(number: int, seed: int = 1) -> list[tuple[str, str]]:
    """Texts with their labels, which a few words give away."""
    draw = random.Random(seed)
    rows = []
    for words in _draw_texts(number, seed):
        label = draw.randrange(len(LABELS))
        for _ in range(_OPINIONS):
            words[draw.randrange(len(words))] = f"{'xz'[label]}{draw.choice(_syllables())}"
        rows.append((" ".join(words).replace(" ,", ",").replace(" .", "."), LABELS[label]))
    return rows


def _draw_texts(number: int, seed: int) -> list[list[str]]:
    draw = np.random.default_rng(seed)
    drawn = draw.lognormal(math.log(MEDIAN_LENGTH), LENGTH_SIGMA, number)
    lengths = np.rint(np.clip(drawn, _SHORTEST, _LONGEST)).astype(int)
    shares = np.cumsum(1 / (np.arange(_VOCABULARY) + 2.7))
    ranks = np.searchsorted(shares / shares[-1], draw.random(lengths.sum()))
    words = _words()[ranks]
    return [piece.tolist() for piece in np.split(words, np.cumsum(lengths)[:-1])]


@cache
def _syllables() -> list[str]:
    consonants = ("b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "ch", "qu")
    return ["".join(pair) for pair in itertools.product(consonants, ("a", "e", "i", "o", "u", "é", "ou", "an"))]


@cache
def _words() -> np.ndarray:
    """By rank: words of one syllable are the commonest, then those of two, then those of three."""
    draw = random.Random(0)
    words: list[str] = []
    for length in (1, 2, 3):
        group = ["".join(syllables) for syllables in itertools.product(_syllables(), repeat=length)]
        words += draw.sample(group, min(len(group), _VOCABULARY - len(words)))
    for rank, sign in _SIGNS.items():
        words[rank] = sign
    return np.array(words)


__all__ = ["LABELS", "LENGTH_SIGMA", "MEDIAN_LENGTH", "invent_labelled", "invent_texts"]
