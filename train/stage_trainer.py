"""`Trainer` for both stages, made to survive: checkpoints whole or not there, stops on NaN, signals and time.

What differs from `transformers.Trainer` is listed in its methods; training itself is the library's.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import ExportableState, ProgressCallback

from .checkpoints import partial_folder, publish_checkpoint, remove_old_checkpoints
from .run_folder import find_checkpoint


class StageTrainer(Trainer):
    """`Trainer` with checkpoints that are published by one rename, and losses that are checked at each step."""

    def __init__(self, *arguments: Any, keep_checkpoints: int = 2, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.keep_checkpoints = keep_checkpoints
        self.seconds = 0.0  # that training took, in this process

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Let the library write aside, then publish. Every process writes its own random state."""
        run_folder, step = Path(self.args.output_dir), self.state.global_step
        partial = partial_folder(run_folder, step)
        if self.is_world_process_zero():
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "run").mkdir(parents=True)
        self.accelerator.wait_for_everyone()
        try:
            self.args.output_dir = str(partial / "run")
            super()._save_checkpoint(model, trial)
        except Exception as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise _explain_write_error(error, run_folder) from error
        finally:
            self.args.output_dir = str(run_folder)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            written = partial / "run" / f"checkpoint-{step}"
            (written / "training_args.bin").unlink(missing_ok=True)  # a pickle that nothing needs: see settings.json
            publish_checkpoint(written, run_folder, step)
            shutil.rmtree(partial, ignore_errors=True)
            remove_old_checkpoints(run_folder, self.keep_checkpoints)
        self.accelerator.wait_for_everyone()

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"expected a finite loss, found {loss.item()} at step {self.state.global_step + 1}, in a batch of "
                f"{len(inputs['labels'])} rows whose first starts with the ids {inputs['input_ids'][0, :8].tolist()}; "
                "lower --learning_rate, or look at that text"
            )
        return loss


def _explain_write_error(error: Exception, folder: Path) -> Exception:
    """A full disk has as many messages as there are libraries that write; make them one."""
    text = str(error)
    full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in text or "PytorchStreamWriter" in text
    if full or shutil.disk_usage(folder).free < 1 << 20:
        return OSError(errno.ENOSPC, f"the disk of {folder} is full; free some room and continue with --resume")
    return error


def train(trainer: StageTrainer, resume: bool) -> None:
    """Train, continuing from the newest complete checkpoint if asked; a signal ends it with a checkpoint and a line."""
    checkpoint, lines = find_checkpoint(Path(trainer.args.output_dir), resume)
    for line in lines:
        announce(line)
    signals = StopSignals()
    trainer.add_callback(signals)
    start = time.monotonic()
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    finally:
        signals.restore()
        trainer.seconds = time.monotonic() - start
    if signals.received is not None:
        announce(f"stopped by {signals.received.name} after step {trainer.state.global_step}; continue with --resume")
        raise SystemExit(128 + signals.received)


class StopSignals(TrainerCallback):
    """SIGTERM and Ctrl-C end the run after the step under way, with a checkpoint. A second one ends it at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}

    def _receive(self, number: int, frame: Any) -> None:
        if self.received is not None:
            self.restore()
            os.kill(os.getpid(), number)
        self.received = signal.Signals(number)

    def restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.received is not None:
            control.should_save = control.should_training_stop = True


class TimeLimit(TrainerCallback, ExportableState):
    """Ends the run after so many minutes, counted over interruptions; `progress` tells the share that has passed."""

    def __init__(self, max_minutes: float, seconds_before: float = 0.0):
        self.limit = max_minutes * 60
        self.seconds_before = seconds_before
        self._start: float | None = None

    @property
    def seconds(self) -> float:
        return self.seconds_before + (0.0 if self._start is None else time.monotonic() - self._start)

    @property
    def progress(self) -> float:
        return min(1.0, self.seconds / self.limit)

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        self._start = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.progress >= 1:
            control.should_save = control.should_evaluate = control.should_training_stop = True

    def state(self) -> dict[str, Any]:
        return {"args": {"max_minutes": self.limit / 60, "seconds_before": self.seconds}, "attributes": {}}


class Throughput(ProgressCallback):
    """The library's progress bar, with tokens a second beside the time that is left."""

    def __init__(self, tokens_per_step: int):
        super().__init__()
        self.tokens_per_step = tokens_per_step

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self._begin = (time.monotonic(), state.global_step)

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_step_end(args, state, control, **kwargs)
        if self.training_bar is not None:
            start, first_step = self._begin
            rate = (state.global_step - first_step) * self.tokens_per_step / max(time.monotonic() - start, 1e-9)
            self.training_bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)


def native_bf16() -> bool:
    """Whether the processor multiplies bf16 matrices itself; where it does not, bf16 is many times slower."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def timed_schedule(name: str, warmup: float, progress: float) -> float:
    """The factor of the learning rate at a share of the run, for runs whose number of steps is not known."""
    if warmup and progress < warmup:
        return progress / warmup
    rest = (progress - warmup) / max(1e-9, 1 - warmup)
    if name == "cosine":
        return 0.5 * (1 + math.cos(math.pi * rest))
    if name == "linear":
        return 1 - rest
    if name in ("constant", "constant_with_warmup"):
        return 1.0
    raise ValueError(f"expected lr_scheduler_type cosine, linear or constant with max_minutes, found {name!r}")


def announce(line: str) -> None:
    """A line for the person who watches, beside the progress bar."""
    print(line, file=sys.stderr, flush=True)
