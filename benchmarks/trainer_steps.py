"""The steps of a `transformers.Trainer`, as a gate sees them."""

from __future__ import annotations

from collections import deque
from typing import Any

from transformers import Trainer, TrainerCallback

from .gate import StepCounter


def count_steps(trainer: Trainer, gate: StepCounter) -> None:
    """Have the gate told of each step, with what was in its batch."""
    counter = _Steps(gate, trainer.data_collator)
    trainer.data_collator = counter.collate
    trainer.add_callback(counter)


class _Steps(TrainerCallback):
    def __init__(self, gate: StepCounter, collate: Any):
        self._gate, self._collate = gate, collate
        self._batches: deque[dict[str, float]] = deque()  # the loader is a batch ahead of the step

    def collate(self, rows: Any) -> Any:
        batch = self._collate(rows)
        positions = batch["input_ids"].numel()
        real = int(batch["attention_mask"].sum()) if "attention_mask" in batch else positions
        self._batches.append({"texts": len(rows), "tokens": real, "positions": positions})
        return batch

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._gate.step(**self._batches.popleft())


__all__ = ["count_steps"]
