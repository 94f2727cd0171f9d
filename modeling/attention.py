"""What attention computes: positions, and the mixing of values by queries and keys.

Shapes are written as B (batch), T (tokens), S (tokens with the cached ones), nh (heads), hd (width of a head).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils.import_utils import is_tracing

# Scores in memory at once in `product_attention_forward`: 128 MB in bf16.
_MOST_SCORES = 2**26


def position_angles(position_ids: Tensor, dim: int) -> Tensor:
    """The angle of each position in each of `dim / 2` waves, (..., T) -> (..., T, dim / 2), in fp32.

    Both kinds of positions are sines and cosines of these angles. They are computed where they are needed, not stored:
    no length is the longest, and there is no buffer to save, to restore after loading or to round to another dtype.
    """
    wave = torch.arange(0, dim, 2, dtype=torch.float32, device=position_ids.device)
    frequency = torch.exp(wave * (-math.log(10_000.0) / dim))
    return position_ids[..., None].float() * frequency


def sinusoidal_embedding(position_ids: Tensor, hidden_size: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos(the same), (B, T) -> (B, T, d)."""
    angles = position_angles(position_ids, hidden_size)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def rotary_waves(position_ids: Tensor, head_dim: int) -> tuple[Tensor, Tensor]:
    """What `rotate` turns by: cosine and sine of each angle, (B, T) -> (B, 1, T, hd/2), the same for all heads."""
    angles = position_angles(position_ids, head_dim).unsqueeze(1)
    return angles.cos(), angles.sin()


def rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + hd/2) of each head by their position's angle, (..., B, nh, T, hd)."""
    cos, sin = cos.to(states.dtype), sin.to(states.dtype)
    first, second = states.chunk(2, dim=-1)
    return torch.cat(
        (torch.addcmul(first * cos, second, sin, value=-1), torch.addcmul(second * cos, first, sin)), dim=-1
    )


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,  # (B, nh, T, hd)
    key: Tensor,  # (B, nh, S, hd), where S counts the cached positions too
    value: Tensor,
    attention_mask: Tensor | None,  # (B, 1, T, S): 0, or the lowest number where a position is hidden
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attention step by step; the only implementation that can return its weights."""
    scores = query @ key.transpose(2, 3) * scaling  # (B, nh, T, S)
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights  # (B, T, nh, hd)


def is_faster_as_products(query: Tensor, key: Tensor) -> bool:
    """Whether `product_attention_forward` is the faster one: in bf16 on a processor, while the scores fit in memory.

    There torch's fused attention does not use the bf16 units: it takes two to four times as long.
    """
    if query.dtype != torch.bfloat16 or query.device.type != "cpu" or is_tracing(query):
        return False
    return query.shape[:-1].numel() * key.shape[-2] <= _MOST_SCORES


def product_attention_forward(
    module: nn.Module,
    query: Tensor,  # (B, nh, T, hd)
    key: Tensor,  # (B, nh, S, hd)
    value: Tensor,
    attention_mask: Tensor | None,  # (B, 1, T, S): True where a position may look, or numbers to add to the scores
    scaling: float,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Two matrix products with a softmax between them; masks are those that `sdpa` is given."""
    scores = (query * scaling) @ key.transpose(2, 3)  # (B, nh, T, S)
    lengths = scores.shape[-2:]
    if attention_mask is None and lengths[0] > 1 and (module.is_causal if is_causal is None else is_causal):
        attention_mask = torch.ones(lengths, dtype=torch.bool, device=scores.device).tril()
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            hidden = torch.finfo(scores.dtype).min  # not -inf: a row of padding sees nothing, and is not to be NaN
            attention_mask = torch.where(attention_mask, 0.0, hidden).to(scores.dtype)
        scores += attention_mask
    weights = nn.functional.dropout(scores.softmax(-1), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), None  # (B, T, nh, hd)


__all__ = [
    "eager_attention_forward",
    "is_faster_as_products",
    "position_angles",
    "product_attention_forward",
    "rotary_waves",
    "rotate",
    "sinusoidal_embedding",
]
