"""`Trainer` for both stages, made to survive: checkpoints whole or not there, stops on NaN, signals and time.

What differs from `transformers.Trainer` is listed in its methods; training itself is the library's.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch.utils.data import Sampler
from tqdm.auto import tqdm
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback, is_tensorboard_available
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_pt_utils import get_length_grouped_indices

from .arguments import StageArguments
from .checkpoints import partial_folder, publish_checkpoint, remove_old_checkpoints, remove_skipped_checkpoints
from .full_disk import explain_full_disk
from .machine import keep_freed_memory, native_bf16
from .run_folder import LOGS, find_checkpoint, open_run, read_finished, tell_remedy
from .stopping import EarlyStopping, Stopped, StopSignals, TimeLimit, handle_signals, stop_at_once, timed_schedule

_SECONDS = "seconds.json"  # of a checkpoint: the time that it took to get there
# How long processes wait for the first one, which may have much to tokenise; the library gives it half an hour.
_PATIENCE = timedelta(days=1)


class StageTrainer(Trainer):
    """`Trainer` with checkpoints that are published by one rename, and losses that are checked at each step."""

    model: Any  # what is known to be there, where the library says it may not
    processing_class: Any
    train_dataset: Any
    data_collator: Any
    optimizer: Any

    def __init__(self, *positional: Any, arguments: StageArguments, **keywords: Any):
        super().__init__(*positional, **keywords)
        keep_freed_memory()
        self.arguments = arguments
        self.time_limit: TimeLimit | None = None
        self.sampler: EpochSampler | None = None
        self.signals = StopSignals()
        self.add_callback(self.signals)
        self.add_callback(NewEpoch(self))
        self.started = time.monotonic()  # or when it would have, had the run never been interrupted
        self.seconds = 0.0  # that training took

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Let the library write aside, then publish. Every process writes its own random state."""
        run_folder, step = Path(self.arguments.output), self.state.global_step
        partial = partial_folder(run_folder, step)
        written = partial / "run" / f"checkpoint-{step}"
        try:
            with explain_full_disk(run_folder):
                if self.is_world_process_zero():
                    shutil.rmtree(partial, ignore_errors=True)
                    written.mkdir(parents=True)
                    (written / _SECONDS).write_text(json.dumps(time.monotonic() - self.started))
                self.accelerator.wait_for_everyone()
                self.args.output_dir = str(partial / "run")
                super()._save_checkpoint(model, trial)
                self.accelerator.wait_for_everyone()
                if self.is_world_process_zero():
                    (written / "training_args.bin").unlink(missing_ok=True)  # a pickle; settings.json says the same
                    publish_checkpoint(written, run_folder, step)
        finally:
            self.args.output_dir = str(run_folder)
            if self.is_world_process_zero():
                shutil.rmtree(partial, ignore_errors=True)
        if self.is_world_process_zero():
            remove_old_checkpoints(run_folder, self.arguments.save_total_limit)
        self.accelerator.wait_for_everyone()

    def restore(self, checkpoint: Path) -> None:
        """What a run had at its last checkpoint, without training."""
        self._load_from_checkpoint(str(checkpoint))
        self.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochSampler:
        options = self.args
        batch_size = options.train_batch_size * options.gradient_accumulation_steps * options.world_size
        lengths = [row["length"] for row in self.train_dataset] if "length" in self.train_dataset[0] else None
        self.sampler = EpochSampler(len(self.train_dataset), batch_size, options.seed, lengths)
        return self.sampler

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
            batch = f"a batch of {len(inputs['labels'])} rows"
            if "input_ids" in inputs:
                batch += f" whose first starts with the ids {inputs['input_ids'][0, :8].tolist()}"
            raise FloatingPointError(
                f"expected a finite loss, found {loss.item()} at step {self.state.global_step + 1}, in {batch}; "
                "lower --learning_rate, or look at that text"
            )
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """Checked before the weights move: a checkpoint of what such gradients make of them could not be used."""
        norm = super()._get_grad_norm(model, grad_norm)
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"expected finite gradients, found a norm of {float(norm)} at step {self.state.global_step + 1}; lower "
                "--learning_rate"
            )
        return norm


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


class NewEpoch(TrainerCallback):
    """Tells the order of the rows, and rows whose masks are drawn anew in each, which epoch it is.

    The library's loader reaches neither of them on several processes when an epoch is resumed in its middle.
    """

    def __init__(self, trainer: StageTrainer):
        self.trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        told: list[Any] = [self.trainer.sampler, self.trainer.train_dataset]
        for each in told:
            if hasattr(each, "epoch"):
                each.epoch = current_epoch(state)


def current_epoch(state: TrainerState) -> int:
    """The epoch that is under way, from 0; the library counts them with fractions."""
    return int((state.epoch or 0) + 1e-6)


def start_processes() -> PartialState:
    """What this process knows of the others that train with it, if there are any."""
    return PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)


def find_finished(arguments: StageArguments) -> dict[str, Any] | None:
    """The record of a finished run, where `--resume` finds nothing to do: a loop that retries ends there."""
    record = read_finished(arguments)
    if record is not None:
        announce(f"the run in {arguments.output} is finished")
    return record


@contextmanager
def hold_run(arguments: StageArguments, process: PartialState, remedy: str | None = None) -> Iterator[Path]:
    """The folder of a run, which the first process holds for all. A signal outside of training ends with a line."""
    if not process.is_main_process:
        yield Path(arguments.output)
        return
    with stop_with_a_line(lambda: remedy or tell_remedy(Path(arguments.output))), open_run(arguments) as folder:
        yield folder


@contextmanager
def stop_with_a_line(remedy: Callable[[], str]) -> Iterator[None]:
    """A signal ends what is under way at once, with a line that says what to do next."""
    try:
        with handle_signals(stop_at_once):
            yield
    except Stopped as stopped:
        announce(f"stopped by {stopped.signal.name}; {remedy()}")
        raise SystemExit(128 + stopped.signal) from None


def train(trainer: StageTrainer, resume: bool, remedy: str | None = None) -> None:
    """Train, continuing from the newest complete checkpoint if asked; a signal ends it with a checkpoint and a line."""
    folder = Path(trainer.arguments.output)
    checkpoint, lines = find_checkpoint(folder, resume)
    for line in lines:
        announce(line)
    trainer.accelerator.wait_for_everyone()  # each has looked at all of them
    if resume and trainer.is_world_process_zero():
        remove_skipped_checkpoints(folder, checkpoint)
    before = 0.0 if checkpoint is None else float(json.loads((checkpoint / _SECONDS).read_text()))
    trainer.started = time.monotonic() - before
    if trainer.time_limit is not None:
        trainer.time_limit.start(before)
    try:
        if checkpoint is not None and was_last(checkpoint):
            trainer.restore(checkpoint)
        else:
            with trainer.signals.heard():
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except BaseException as error:
        trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)  # the bar and the logs end
        if not isinstance(error, Stopped):
            raise
        step = trainer.state.global_step
        announce(f"stopped by {error.signal.name} after step {step}; {remedy or tell_remedy(folder)}")
        raise SystemExit(128 + error.signal) from None
    finally:
        trainer.seconds = time.monotonic() - trainer.started


def was_last(checkpoint: Path) -> bool:
    """Whether training was over when it was written. The library would take one more step from there."""
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    return bool(state["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"])


def check_stage_arguments(arguments: Any) -> None:
    """Refuse, before any work, values of the options of both stages that cannot be meant."""
    counts = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps")
    for name in (*counts, "save_total_limit", "early_stopping_patience", "max_minutes", "num_train_epochs"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise ValueError(f"expected --{name} above 0, found {value}")
    if arguments.max_steps < 1 and arguments.max_steps != -1:
        raise ValueError(f"expected --max_steps above 0, or -1 for as many as there are, found {arguments.max_steps}")
    if arguments.max_minutes is not None:
        if arguments.warmup_steps >= 1:
            raise ValueError(
                f"expected --warmup_steps below 1, a share, with --max_minutes, found {arguments.warmup_steps}"
            )
        timed_schedule(arguments.lr_scheduler_type, 0, 0)
    if arguments.tensorboard and not is_tensorboard_available():
        raise ImportError(
            "expected the package tensorboard for --tensorboard, found none; pip install greffe[tensorboard]"
        )


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
        "report_to": "none",
        "restore_callback_states_from_checkpoint": True,  # how long early stopping has waited
    }


def add_callbacks(
    trainer: StageTrainer, arguments: StageArguments, unit: tuple[str, int], progress: TrainerCallback | None = None
) -> None:
    """The bar, the logs, early stopping, the time limit. `unit` is what a row counts for, and how much of it."""
    for callback in (ProgressCallback, PrinterCallback):
        trainer.remove_callback(callback)
    options = trainer.args
    rows = options.train_batch_size * options.gradient_accumulation_steps * options.world_size
    if arguments.max_minutes is not None:
        trainer.time_limit = TimeLimit(arguments.max_minutes)
        trainer.add_callback(trainer.time_limit)
    trainer.add_callback(progress or Throughput(unit[0], rows * unit[1], trainer.time_limit))
    if arguments.early_stopping_patience is not None:
        trainer.add_callback(EarlyStopping(arguments.early_stopping_patience))
    if arguments.tensorboard:
        logs = TensorBoardCallback()
        logs.logging_dir = str(Path(arguments.output) / LOGS)
        trainer.add_callback(logs)


class Throughput(ProgressCallback):
    """The library's progress bar, with tokens or texts a second beside the time that is left.

    Of a run that ends by the clock nobody knows the number of steps: its bar counts seconds.
    """

    def __init__(self, unit: str, per_step: int, time_limit: TimeLimit | None = None):
        super().__init__()
        self.unit, self.per_step, self.time_limit = unit, per_step, time_limit

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self._begin = (time.monotonic(), state.global_step)
        if self.training_bar is not None and self.time_limit is not None:
            self.training_bar.bar_format = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self.training_bar.reset(total=self.time_limit.limit)
            self.training_bar.initial = self.training_bar.n = self.time_limit.progress * self.time_limit.limit

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_bar is None:
            return
        start, first_step = self._begin
        seconds, steps = time.monotonic() - start, state.global_step - first_step
        rate = f"{steps * self.per_step / max(seconds, 1e-9):,.0f} {self.unit}/s"
        if self.time_limit is None:
            super().on_step_end(args, state, control, **kwargs)
            self.training_bar.set_postfix_str(rate, refresh=False)
        else:
            self.training_bar.set_postfix_str(f"step {state.global_step:,}, {rate}", refresh=False)
            self.training_bar.update(self.time_limit.progress * self.time_limit.limit - self.training_bar.n)

    def on_train_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.training_bar is not None:  # else training ended before it began
            super().on_train_end(args, state, control, **kwargs)


def announce(line: str) -> None:
    """A line for the person who watches, above the progress bar; of several processes the first one speaks."""
    if is_first_process():
        tqdm.write(line, file=sys.stderr)


def is_first_process() -> bool:
    """Whether this is the only process, or the one of several that speaks."""
    return os.environ.get("RANK", "0") == "0"
