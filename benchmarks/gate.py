"""Where a contender waits for its turn, in a process of its own.

A contender is a function that works without end and calls `gate.step(…)` after each step. The gate lets it through
until a slice of steps is done, says how long that took, and holds it until the next slice is asked for. So peers take
turns although none can be paused from outside (`Trainer` has its own loop), share no allocator, and their memory is
theirs alone.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Slice:
    """Some steps: how long they took, what was done in them, and the memory of the process so far."""

    seconds: float
    counts: dict[str, float]  # such as tokens
    # Megabytes that the work takes: the most so far, and what is kept between steps.
    peak: float
    held: float


class StepCounter(Protocol):
    """What a contender calls after each step, with what the step did. A gate is one."""

    def step(self, **counts: float) -> None: ...


class Gate:
    def __init__(self, connection: Connection):
        self._connection = connection
        self._memory = Memory()
        self._counts: Counter[str] = Counter()
        self._left = 1  # the first step is not measured: it also makes buffers and the optimiser's state
        self._start = time.perf_counter()

    def step(self, **counts: float) -> None:
        self._counts.update(counts)
        self._left -= 1
        if self._left:
            return
        seconds = time.perf_counter() - self._start
        peak, held = self._memory.read()
        self._connection.send(Slice(seconds, dict(self._counts), peak, held))
        self._left = self._connection.recv()
        if not self._left:
            raise SystemExit
        self._counts.clear()
        self._start = time.perf_counter()


class Memory:
    """What this process takes from when this is made. Code and mapped files do not count: the system can drop them."""

    def __init__(self) -> None:
        self._before = _megabytes("RssAnon")

    def read(self) -> tuple[float, float]:
        """The most so far, and now. (getrusage would count the parent's as well.)"""
        peak = _megabytes("VmHWM") - _megabytes("RssFile") - self._before
        now = _megabytes("RssAnon") - self._before
        return max(peak, now), now


def _megabytes(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError(f"expected {name} in /proc/self/status, found none; benchmarks run on Linux")
    return int(found[1]) / 1024


__all__ = ["Gate", "Memory", "Slice", "StepCounter"]
