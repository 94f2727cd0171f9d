"""Encoded texts into batches: those of similar length together, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn


def batches_by_length(
    ids: Sequence[Sequence[int]], batch_size: int, pad_token_id: int, device: torch.device, multiple_of: int = 1
) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Which texts a batch holds, and their ids and mask, (B, T), padded on the right. The shortest come first."""
    if batch_size < 1:
        raise ValueError(f"expected a batch size of at least 1, found {batch_size}")
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    pad = nn.utils.rnn.pad_sequence
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        tensors = [torch.tensor(ids[row], dtype=torch.long) for row in rows]
        padded = pad(tensors, batch_first=True, padding_value=pad_token_id)
        mask = pad([torch.ones_like(row) for row in tensors], batch_first=True)
        more = (0, -padded.shape[1] % multiple_of)
        padded, mask = nn.functional.pad(padded, more, value=pad_token_id), nn.functional.pad(mask, more)
        yield rows, {"input_ids": padded.to(device), "attention_mask": mask.to(device)}


__all__ = ["batches_by_length"]
