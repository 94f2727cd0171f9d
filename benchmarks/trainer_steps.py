"""The steps of a `transformers.Trainer`, as a gate sees them."""

from __future__ import annotations

from collections import deque
from typing import Any

from transformers import Trainer, TrainerCallback

from .gate import StepCounter
from .sizes import Size
from .workload import count_batch


def count_steps(trainer: Trainer, gate: StepCounter, size: Size, head: bool) -> None:
    """Have the gate told of each step, with what was in its batch."""
    counter = _Steps(gate, trainer.data_collator, size, head)
    trainer.data_collator = counter.collate
    trainer.add_callback(counter)


class _Steps(TrainerCallback):
    def __init__(self, gate: StepCounter, collate: Any, size: Size, head: bool):
        self._gate, self._collate, self._size, self._head = gate, collate, size, head
        self._batches: deque[dict[str, float]] = deque()  # the loader is a batch ahead of the step

    def collate(self, rows: Any) -> Any:
        batch = self._collate(rows)
        texts, longest = batch["input_ids"].shape
        lengths = batch["attention_mask"].sum(1).tolist() if "attention_mask" in batch else [longest] * texts
        self._batches.append(count_batch(self._size, lengths, longest, self._head))
        return batch

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._gate.step(**self._batches.popleft())


__all__ = ["count_steps"]
