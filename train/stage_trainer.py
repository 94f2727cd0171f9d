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
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_pt_utils import get_length_grouped_indices

from .arguments import StageArguments
from .checkpoints import partial_folder, publish_checkpoint, remove_old_checkpoints
from .run_folder import find_checkpoint


class StageTrainer(Trainer):
    """`Trainer` with checkpoints that are published by one rename, and losses that are checked at each step."""

    model: Any  # what is known to be there, where the library says it may not
    processing_class: Any
    train_dataset: Any
    data_collator: Any
    optimizer: Any

    def __init__(self, *positional: Any, arguments: StageArguments, **keywords: Any):
        super().__init__(*positional, **keywords)
        self.arguments = arguments
        self.time_limit: TimeLimit | None = None
        self.seconds = 0.0  # that training took, in this process

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Let the library write aside, then publish. Every process writes its own random state."""
        run_folder, step = Path(self.arguments.output), self.state.global_step
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
            remove_old_checkpoints(run_folder, self.arguments.save_total_limit)
        self.accelerator.wait_for_everyone()

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochSampler:
        options = self.args
        batch_size = options.train_batch_size * options.gradient_accumulation_steps * options.world_size
        lengths = [row["length"] for row in self.train_dataset] if "length" in self.train_dataset[0] else None
        return EpochSampler(len(self.train_dataset), batch_size, options.seed, lengths)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """By steps as in the library; by the clock when the run ends by it."""
        if self.time_limit is None:
            return super().create_scheduler(num_training_steps, optimizer)
        limit, name, warmup = self.time_limit, self.arguments.lr_scheduler_type, self.args.warmup_steps
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer or self.optimizer, lambda _: timed_schedule(name, warmup, limit.progress)
        )
        return self.lr_scheduler

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"expected a finite loss, found {loss.item()} at step {self.state.global_step + 1}, in a batch of "
                f"{len(inputs['labels'])} rows whose first starts with the ids {inputs['input_ids'][0, :8].tolist()}; "
                "lower --learning_rate, or look at that text"
            )
        return loss


class EpochSampler(Sampler[int]):
    """An order that depends on seed and epoch alone, in full batches, with texts of similar lengths together.

    The library's own samplers draw from the global state and group by the batch of one process, and the last batch of
    an epoch is shorter on one process and filled up on two: a resumed run, or one on two processes, would differ. Here
    the last batch is always filled, with the first rows of the epoch.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, lengths: list[int] | None = None):
        self.rows, self.batch_size, self.seed, self.lengths = rows, batch_size, seed, lengths
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.rows / self.batch_size) * self.batch_size

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        if self.lengths is None:
            order = torch.randperm(self.rows, generator=generator).tolist()
        else:
            order = get_length_grouped_indices(self.lengths, self.batch_size, generator=generator)
        return islice(cycle(order), len(self))


def _explain_write_error(error: Exception, folder: Path) -> Exception:
    """A full disk has as many messages as there are libraries that write; make them one."""
    text = str(error)
    full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in text or "PytorchStreamWriter" in text
    if full or shutil.disk_usage(folder).free < 1 << 20:
        return OSError(errno.ENOSPC, f"the disk of {folder} is full; free some room and continue with --resume")
    return error


def train(trainer: StageTrainer, resume: bool, remedy: str = "continue with --resume") -> None:
    """Train, continuing from the newest complete checkpoint if asked; a signal ends it with a checkpoint and a line."""
    checkpoint, lines = find_checkpoint(Path(trainer.arguments.output), resume)
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
        announce(f"stopped by {signals.received.name} after step {trainer.state.global_step}; {remedy}")
        raise SystemExit(128 + signals.received)


def common_training_arguments(arguments: Any, folder: Path) -> dict[str, Any]:
    """The options of `Trainer` that both stages set, with every default that Greffe changes."""
    bf16 = native_bf16() if arguments.bf16 == "auto" else arguments.bf16 == "on"
    if arguments.bf16 == "auto":
        announce("bf16 on: the processor has it" if bf16 else "bf16 off: the processor does not have it natively")
    same_name = (
        *("max_steps", "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"),
        *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "seed"),
    )
    gpu = torch.cuda.is_available()
    return {
        **{name: getattr(arguments, name) for name in same_name},
        "output_dir": str(folder),
        "data_seed": arguments.seed,
        "bf16": bf16,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "remove_unused_columns": False,
        "report_to": ["tensorboard"] if arguments.tensorboard else "none",
    }


def add_callbacks(
    trainer: StageTrainer, arguments: StageArguments, unit: tuple[str, int], progress: TrainerCallback | None = None
) -> None:
    """The progress bar, early stopping and the time limit. `unit` is what a row counts for, and how much of it."""
    for callback in (ProgressCallback, PrinterCallback):
        trainer.remove_callback(callback)
    options = trainer.args
    rows = options.train_batch_size * options.gradient_accumulation_steps * options.world_size
    trainer.add_callback(progress or Throughput(unit[0], rows * unit[1], arguments.max_minutes))
    if arguments.early_stopping_patience is not None:
        trainer.add_callback(EarlyStoppingCallback(arguments.early_stopping_patience))
    if arguments.max_minutes is not None:
        trainer.time_limit = TimeLimit(arguments.max_minutes)
        trainer.add_callback(trainer.time_limit)


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


class TimeLimit(TrainerCallback):
    """Ends the run after so many minutes; `progress` tells the share that has passed."""

    def __init__(self, max_minutes: float):
        self.limit = max_minutes * 60
        self._start: float | None = None

    @property
    def progress(self) -> float:
        return 0.0 if self._start is None else min(1.0, (time.monotonic() - self._start) / self.limit)

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        self._start = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.progress >= 1:
            control.should_save = control.should_evaluate = control.should_training_stop = True


class Throughput(ProgressCallback):
    """The library's progress bar, with tokens or texts a second beside the time that is left.

    Of a run that ends by the clock nobody knows the number of steps: its bar counts seconds.
    """

    def __init__(self, unit: str, per_step: int, max_minutes: float | None = None):
        super().__init__()
        self.unit, self.per_step, self.max_minutes = unit, per_step, max_minutes

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self._begin = (time.monotonic(), state.global_step)
        if self.training_bar is not None and self.max_minutes is not None:
            self.training_bar.bar_format = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self.training_bar.reset(total=round(self.max_minutes * 60))

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_bar is None:
            return
        start, first_step = self._begin
        seconds, steps = time.monotonic() - start, state.global_step - first_step
        rate = f"{steps * self.per_step / max(seconds, 1e-9):,.0f} {self.unit}/s"
        if self.max_minutes is None:
            super().on_step_end(args, state, control, **kwargs)
            self.training_bar.set_postfix_str(rate, refresh=False)
        else:
            self.training_bar.set_postfix_str(f"step {state.global_step:,}, {rate}", refresh=False)
            self.training_bar.update(min(seconds, self.training_bar.total) - self.training_bar.n)


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
