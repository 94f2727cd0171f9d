"""Text that belongs to nobody: sentences of invented words, common ones more often, with accents and punctuation."""

from __future__ import annotations

import random


def make_documents(number: int = 400, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    syllables = ["ba", "lo", "mi", "ré", "çu", "tan", "où", "vers", "pli", "ê", "gno", "sœu"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(600)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [
        " ".join(draw.choices(words, weights, k=draw.randint(3, 20))).capitalize() + draw.choice([".", " !", " ?", "…"])
        for _ in range(number)
    ]
