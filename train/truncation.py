"""Long texts made to fit: their head, their tail, or both ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

Truncation = Literal["head", "tail", "both"]


def truncate_ids(
    input_ids: Sequence[int], max_length: int, keep: Truncation = "head", bos_token_id: int | None = None
) -> list[int]:
    """At most `max_length` ids of a text, in their order.

    A leading `bos_token_id` stays first whatever is kept. `both` keeps the first and the last part, the first one
    longer where the room is odd; nothing marks the gap.
    """
    _check(max_length, keep, bos_token_id)
    ids = list(input_ids)
    if len(ids) <= max_length:
        return ids
    start = 1 if bos_token_id is not None and ids[0] == bos_token_id else 0
    room = max_length - start
    head = {"head": room, "tail": 0, "both": (room + 1) // 2}[keep]
    tail = room - head
    return ids[: start + head] + ids[len(ids) - tail :]


def truncate_all(
    texts: Iterable[Sequence[int]], max_length: int, keep: Truncation = "head", bos_token_id: int | None = None
) -> tuple[list[list[int]], int]:
    """Each text truncated, and how many had to be."""
    _check(max_length, keep, bos_token_id)
    touched = 0
    truncated = []
    for ids in texts:
        touched += len(ids) > max_length
        truncated.append(truncate_ids(ids, max_length, keep, bos_token_id))
    return truncated, touched


def _check(max_length: int, keep: str, bos_token_id: int | None) -> None:
    if keep not in get_args(Truncation):
        raise ValueError(f"expected truncation among {list(get_args(Truncation))}, found {keep!r}")
    least = 1 if bos_token_id is None else 2
    if max_length < least:
        raise ValueError(f"expected a maximal length of at least {least}, to leave room for text, found {max_length}")


__all__ = ["Truncation", "truncate_all", "truncate_ids"]
