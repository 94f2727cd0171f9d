"""A shallow path from words to labels: a linear classifier of word n-grams, beside the trunk.

A linear model of word counts is hard to beat where labels are few, and a network does not learn from them what it
knows. So a classifier may carry one: TF-IDF of the words and of the runs of up to `ngram_order` words, hashed into
`ngram_buckets`, a pure function of `input_ids` like everything else. Words are put together from what the tokens spell,
in lower case: "Excellent" and "excellent" are one, however each is cut. Weights are fitted, not drawn: a new path says
nothing, and takes each token for a word until it is told how they are spelt. Shapes are written as B (batch), T (tokens
or words, of which no text has more), N (n-grams of a text), C (labels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Hashing in the integers below a prime, in which no product of two leaves 64 bits.
_PRIME = 2**31 - 1
_NEXT_WORD, _NEXT_BYTE, _SPREAD = 1_000_003, 263, 747_796_405
# Beyond so many bytes of a word their order is not told apart.
_WIDEST = 64


class NgramPath(nn.Module):
    rarity: Tensor
    spelling: Tensor

    def __init__(self, config: Any):
        super().__init__()
        self.order, self.buckets = config.ngram_order, config.ngram_buckets
        self.weight = nn.Parameter(torch.zeros(self.buckets, config.num_labels))
        # How much an n-gram is worth before any label is seen: more where few texts have it. 0: it is not known.
        self.register_buffer("rarity", torch.zeros(self.buckets))
        # Of each token: a hash of what it spells, 0 where that is no part of a word; how many bytes that is; whether a
        # word begins with it whatever stands before.
        self.register_buffer("spelling", self.unspelt(config.vocab_size))

    @staticmethod
    def unspelt(vocab_size: int) -> Tensor:
        """Each token a word, (V, 3)."""
        one = torch.ones(vocab_size, dtype=torch.long)
        return torch.stack([one.cumsum(0), one, one], 1)

    def learn_spelling(self, pieces: Sequence[tuple[bytes, bool]]) -> None:
        """What each token has of a word, empty where it has nothing, and whether it begins one."""
        table = torch.zeros_like(self.spelling)
        for token, (letters, begins) in enumerate(pieces):
            value = sum((byte + 1) * _power(place) for place, byte in enumerate(letters)) % _PRIME
            table[token] = torch.tensor([value, len(letters), begins])
        self.spelling.copy_(table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, C)"""
        return self.shares(input_ids, attention_mask).sum(1)

    def contributions(self, input_ids: Tensor) -> Tensor:
        """What each token has in the logits, (B, T) -> (B, T, C): of an n-gram as much as each of its other words, and
        of a word as much as each of its other tokens."""
        length = input_ids.shape[1]
        parts = self.shares(input_ids).split(length, 1)  # order x (B, T, C): those of one word, of two ...
        result = torch.zeros_like(parts[0])
        for more, part in enumerate(parts):
            for place in range(min(more + 1, length)):
                result[:, place:] += part[:, : length - place] / (more + 1)
        _, numbers, inside = self.words(input_ids)
        tokens = torch.zeros_like(numbers).scatter_add_(1, numbers, inside.long())
        shares = inside / tokens.gather(1, numbers).clamp(min=1)
        return result.gather(1, numbers[..., None].expand_as(result)) * shares[..., None].to(result)

    def shares(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """What each n-gram has in the logits, (B, N, C)."""
        buckets, counts = self.count(input_ids, attention_mask)
        values = self.values(buckets, counts)
        return self.weight[buckets] * values[..., None].to(self.weight)

    def values(self, buckets: Tensor, counts: Tensor) -> Tensor:
        """TF-IDF of each occurrence, (B, N): those of one n-gram share (1 + log count) x rarity; a text is 1 long."""
        times = counts.clamp(min=1).float()
        known = (1 + times.log()) * self.rarity.float()[buckets] * (counts > 0)
        length = (known**2 / times).sum(1, keepdim=True).sqrt()
        return known / times / length.clamp(min=1e-9)

    def count(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The bucket of each n-gram, and how often it stands in its text, 0 where there is none; both (B, N).

        One of each length begins at each word, N = ngram_order x T; behind the last word there are none.
        """
        words, _, _ = self.words(input_ids, attention_mask)
        length = words.shape[1]
        hashed, whole = torch.zeros_like(words), words > 0
        words = nn.functional.pad(words, (0, self.order - 1))
        buckets, counts = [], []
        for more in range(self.order):  # each n-gram so far, and the word behind it
            following = words[:, more : more + length]
            hashed = (hashed * _NEXT_WORD + following) % _PRIME
            whole = whole & (following > 0)
            bucket = (hashed * _SPREAD + more + 1) % _PRIME % self.buckets
            same = (bucket[:, :, None] == bucket[:, None, :]) & whole[:, None, :]
            buckets.append(bucket)
            counts.append(same.sum(-1) * whole)
        return torch.cat(buckets, 1), torch.cat(counts, 1)

    def words(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The words of each text as numbers above 0, one after the other, then 0; for each token the place of its word
        among them; and whether it is in one at all. Each (B, T)."""
        spelling = self.spelling[input_ids.long()]  # (B, T, 3)
        if attention_mask is not None and attention_mask.ndim == 2:
            spelling = spelling * (attention_mask[:, -input_ids.shape[1] :, None] != 0)
        hashes, widths, begins = spelling.unbind(-1)
        inside = hashes > 0
        first = inside & ((begins > 0) | ~nn.functional.pad(inside, (1, 0))[:, :-1])
        places = (first.long().cumsum(1) - 1).clamp(min=0)
        # A word is a polynomial of its bytes, whose powers count on from one of its tokens to the next.
        offsets = widths.cumsum(1) - widths
        starts = torch.zeros_like(offsets).scatter_add_(1, places, offsets * first)
        offsets = (offsets - starts.gather(1, places)).clamp(0, _WIDEST - 1)
        powers = torch.tensor([_power(place) for place in range(_WIDEST)], device=offsets.device)
        values = hashes * powers[offsets] % _PRIME * inside
        words = torch.zeros_like(values).scatter_add_(1, places, values) % _PRIME
        words = words * (words + _SPREAD) % _PRIME + 1  # far apart, so that sums of several are not alike
        return words * (torch.zeros_like(places).scatter_add_(1, places, first.long()) > 0), places, inside


def _power(place: int) -> int:
    """What a byte at this place of its word is multiplied with."""
    return pow(_NEXT_BYTE, min(place, _WIDEST - 1), _PRIME)


__all__ = ["NgramPath"]
