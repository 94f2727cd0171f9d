"""The sizes at which Greffe and its peers are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A model's sizes, as every peer understands them."""

    name: str
    preset: str  # of Greffe, which also says what kind of layer it is
    vocabulary: int
    width: int
    layers: int
    heads: int
    feed_forward: int
    tied: bool  # the head shares the embedding's matrix


SIZES = {
    size.name: size
    for size in (
        Size("experiment", "lab", 50_001, 200, 4, 2, 200, tied=False),
        Size("small", "small", 8192, 256, 4, 4, 1024, tied=True),
        Size("tiny", "lab", 512, 32, 2, 2, 32, tied=False),  # to see that a benchmark runs; its figures mean nothing
    )
}

__all__ = ["SIZES", "Size"]
