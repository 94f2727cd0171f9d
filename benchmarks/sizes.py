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

    def count_operations(self, length: int, head: bool = True) -> int:
        """Multiplications and additions of the matrix products of a row, forward, half of attention masked.

        `head` is that of a language model; a classifier's is too small to count.
        """
        matrices = self.layers * (4 * self.width**2 + 2 * self.width * self.feed_forward)
        attention = self.layers * 2 * (length // 2) * self.width
        return 2 * length * (matrices + attention + head * self.width * self.vocabulary)


SIZES = {
    size.name: size
    for size in (
        Size("experiment", "lab", 50_001, 200, 4, 2, 200, tied=False),
        Size("small", "small", 8192, 256, 4, 4, 1024, tied=True),
        Size("tiny", "lab", 512, 32, 2, 2, 32, tied=False),  # to see that a benchmark runs; its figures mean nothing
    )
}

__all__ = ["SIZES", "Size"]
