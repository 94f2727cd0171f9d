"""What ends a run before its last step: a signal, the clock, an evaluation that gets no better.

With several processes all of them must end after the same step: one that went on would wait for the others for ever. So
they agree on what they saw, after each step.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from accelerate import PartialState
from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments

_PASSED_ON = 5.0  # seconds within which a launcher has passed on the signal that its processes got as well


class Stopped(BaseException):
    """A signal has ended the run: no error, which somebody on the way may handle, but what was asked for."""

    def __init__(self, number: int):
        self.signal = signal.Signals(number)


@contextmanager
def handle_signals(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C call this for a while. Python allows that in the main thread only; others stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    sys.unraisablehook = partial(_send_again, hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, before in previous.items():
            signal.signal(number, before)


def _send_again(hook: Callable[[Any], Any], unraisable: Any) -> None:
    """Python drops what is raised while an object is deleted: a signal that came there comes again a moment later."""
    if not isinstance(unraisable.exc_value, Stopped):
        hook(unraisable)
        return
    main = threading.main_thread().ident
    threading.Timer(0.01, signal.pthread_kill, (main, unraisable.exc_value.signal)).start()


def stop_at_once(number: int, frame: Any) -> None:
    """Where there is nothing to save: what was begun is cleaned up, as after an error."""
    raise Stopped(number)


def find_largest(value: float) -> float:
    """The largest of the processes' values, in all of them."""
    process = PartialState()
    if process.num_processes == 1:
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=process.device)
    torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
    return shared.item()


class StopSignals(TrainerCallback):
    """SIGTERM and Ctrl-C end the run after the step under way, with a checkpoint. A second one ends it at once.

    The end is an exception from within the loop: the library's own way out would evaluate once more, in the middle of
    an epoch, and count that towards the best epoch; a run that is continued would differ from one that never stopped.
    """

    def __init__(self) -> None:
        self.agreed: signal.Signals | None = None
        self._received: tuple[int, float] | None = None  # the first signal, and when

    @contextmanager
    def heard(self) -> Iterator[None]:
        with handle_signals(self._receive):
            yield
            agreed = self._agree()
            if agreed is not None:  # it came after the last step
                raise Stopped(agreed)

    def _receive(self, number: int, frame: Any) -> None:
        if self._received is None:
            self._received = number, time.monotonic()
        elif PartialState().num_processes == 1 or time.monotonic() - self._received[1] > _PASSED_ON:
            stop_at_once(number, frame)

    def _agree(self) -> signal.Signals | None:
        number = int(find_largest(0 if self._received is None else self._received[0]))
        if number:
            self.agreed = signal.Signals(number)
        return self.agreed

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        agreed = self._agree()
        if agreed is not None:
            if args.save_strategy == "no":
                raise Stopped(agreed)
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.agreed is not None:
            raise Stopped(self.agreed)


class TimeLimit(TrainerCallback):
    """Ends the run after so many minutes; `progress` tells the share that has passed.

    The clock is read once a step, and all processes take the same reading: the learning rate follows it, and with
    rates of their own their weights would drift apart.
    """

    def __init__(self, max_minutes: float):
        self.limit = max_minutes * 60
        self.start(0.0)

    def start(self, seconds: float) -> None:
        """Begin to count, from the seconds that a run had taken before it was interrupted."""
        self._start = time.monotonic() - seconds
        self.progress = min(1.0, seconds / self.limit)

    def on_pre_optimizer_step(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        self.progress = min(1.0, find_largest((time.monotonic() - self._start) / self.limit))

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        if self.progress >= 1:
            control.should_training_stop = True
            if args.eval_strategy != "epoch":  # else the end of the epoch, which follows, evaluates and saves
                control.should_save = True
                control.should_evaluate = args.eval_strategy != "no"


class EarlyStopping(EarlyStoppingCallback):
    """The library's, without its warning that the last weights are kept: each stage says what it keeps."""

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        pass


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


__all__ = [
    "EarlyStopping",
    "StopSignals",
    "Stopped",
    "TimeLimit",
    "find_largest",
    "handle_signals",
    "stop_at_once",
    "timed_schedule",
]
