"""A shallow path from tokens to labels: a linear classifier of token n-grams, beside the trunk.

A linear model of word counts is hard to beat where labels are few, and a network does not learn from them what it
knows. So a classifier may carry one: TF-IDF of the tokens and of the runs of up to `ngram_order` tokens, hashed into
`ngram_buckets`, a pure function of `input_ids` like everything else. Its weights are fitted, not drawn: a new one says
nothing. Shapes are written as B (batch), T (tokens), N (n-grams of a text), C (labels).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

# Hashing in the integers below a prime, in which no product of two leaves 64 bits.
_PRIME = 2**31 - 1
_NEXT_TOKEN, _SPREAD = 1_000_003, 747_796_405


class NgramPath(nn.Module):
    rarity: Tensor

    def __init__(self, config: Any):
        super().__init__()
        self.order, self.buckets = config.ngram_order, config.ngram_buckets
        self.weight = nn.Parameter(torch.zeros(self.buckets, config.num_labels))
        # How much an n-gram is worth before any label is seen: more where few texts have it. 0: it is not known.
        self.register_buffer("rarity", torch.zeros(self.buckets))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, C)"""
        return self.shares(input_ids, attention_mask).sum(1)

    def contributions(self, input_ids: Tensor) -> Tensor:
        """What each token has in the logits, (B, T) -> (B, T, C): of an n-gram, as much as each of its other tokens."""
        length = input_ids.shape[1]
        parts = self.shares(input_ids).split(length, 1)  # order x (B, T, C): those of one token, of two ...
        result = torch.zeros_like(parts[0])
        for more, part in enumerate(parts):
            for place in range(min(more + 1, length)):
                result[:, place:] += part[:, : length - place] / (more + 1)
        return result

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
        """The bucket of each n-gram, and how often it stands in its text, 0 where padding is in it; both (B, N).

        One of each length begins at each token, N = ngram_order x T; what stands behind the last token is padding too.
        """
        length = input_ids.shape[1]
        tokens = input_ids.long() + 1  # products of 32 bits would overflow
        if attention_mask is not None and attention_mask.ndim == 2:
            tokens = tokens * (attention_mask[:, -length:] != 0)  # 0: padding
        hashed, whole = torch.zeros_like(tokens), tokens > 0
        tokens = nn.functional.pad(tokens, (0, self.order - 1))
        buckets, counts = [], []
        for more in range(self.order):  # each n-gram so far, and the token behind it
            following = tokens[:, more : more + length]
            hashed = (hashed * _NEXT_TOKEN + following) % _PRIME
            whole = whole & (following > 0)
            bucket = (hashed * _SPREAD + more + 1) % _PRIME % self.buckets
            same = (bucket[:, :, None] == bucket[:, None, :]) & whole[:, None, :]
            buckets.append(bucket)
            counts.append(same.sum(-1) * whole)
        return torch.cat(buckets, 1), torch.cat(counts, 1)


__all__ = ["NgramPath"]
