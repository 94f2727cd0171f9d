"""Rounds in which contenders take turns, so that a slow moment of the machine falls on all of them."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from .gate import Gate, Slice

Item = TypeVar("Item")


@dataclass(frozen=True)
class Contender:
    """A name in the tables, and the function that does the work: `ours.pretrain` of this package, say.

    It is found by its name so that the process that only waits and counts does not import torch.
    """

    name: str
    work: str
    arguments: tuple[Any, ...] = ()


@dataclass
class Measured:
    """One contender: a value for each round."""

    values: list[float]
    # Of its process, above what imports take: the most, and what it keeps between steps.
    peak_megabytes: float | None = None
    held_megabytes: float | None = None
    # What else was seen: the share of positions that are padding, …
    facts: dict[str, float] = field(default_factory=dict)


def alternate(contenders: Sequence[Contender], *, count: str, steps: int, rounds: int) -> dict[str, Measured]:
    """Let each contender make so many steps in each round; values are `count` a second."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        running = [
            stack.enter_context(_start(contender, Path(folder) / f"{number}.log"))
            for number, contender in enumerate(contenders)
        ]
        slices: dict[str, list[Slice]] = {contender.name: [] for contender in contenders}
        for process in take_turns(running, rounds):
            slices[process.contender.name].append(process.run(steps))
    return {name: _summarise(measured, count) for name, measured in slices.items()}


def take_turns(contenders: Iterable[Item], rounds: int) -> Iterator[Item]:
    """Each once a round. Every other round goes backwards, and every two begin with another: none has a fixed place."""
    order = deque(contenders)
    for number in tqdm(range(rounds), desc="rounds", leave=False, disable=None):
        yield from reversed(order) if number % 2 else order
        order.rotate(-(number % 2))


def _summarise(slices: list[Slice], count: str) -> Measured:
    measured = Measured(
        values=[slice.counts[count] / slice.seconds for slice in slices],
        peak_megabytes=max(slice.peak for slice in slices),
        held_megabytes=slices[-1].held,
    )
    totals = {name: sum(slice.counts[name] for slice in slices) for name in slices[0].counts}
    if "positions" in totals:
        measured.facts["padding"] = 1 - totals["tokens"] / totals["positions"]
        measured.facts["work on padding"] = 1 - totals["operations on text"] / totals["operations"]
    if "gigaflops" in totals:
        measured.facts["GFLOP/s"] = totals["gigaflops"] / sum(slice.seconds for slice in slices)
    return measured


@dataclass
class _Running:
    contender: Contender
    connection: Connection
    log: Path

    def run(self, steps: int) -> Slice:
        self.connection.send(steps)
        return self.receive()

    def receive(self) -> Slice:
        try:
            return self.connection.recv()
        except EOFError:
            said = self.log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"expected {self.contender.name} to run, found it ended; it said:\n{said}") from None


@contextmanager
def _start(contender: Contender, log: Path) -> Iterator[_Running]:
    """A contender in its process, past its first step."""
    context = _context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, contender, log), daemon=True)
    process.start()
    theirs.close()
    running = _Running(contender, ours, log)
    try:
        running.receive()
        yield running
        ours.send(0)
        process.join(30)
    finally:
        process.kill()
        process.join()


def _context() -> ForkServerContext:
    """Processes that are copies of one that has imported all there is to import, and has done nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.preloaded"])
    return context


def _serve(connection: Connection, contender: Contender, log: Path) -> None:
    """What the process of a contender does. What it prints is for the log, which is shown if it fails."""
    with log.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    _call(contender.work, Gate(connection), *contender.arguments)


def run_apart(function: str, *arguments: Any) -> Any:
    """What a function of this package gives in such a process: for what needs torch."""
    with _context().Pool(1) as pool:
        return pool.apply(_call, (function, *arguments))


def _call(name: str, *arguments: Any) -> Any:
    module, function = name.split(".")
    return getattr(importlib.import_module(f"benchmarks.{module}"), function)(*arguments)


def alternate_commands(
    commands: Mapping[str, Sequence[str | Path]], *, rounds: int, warm_up: bool
) -> dict[str, Measured]:
    """Run each command in each round; values are seconds. A first run of each, to fill disk caches, is not counted."""
    measured = {name: Measured([]) for name in commands}
    if warm_up:
        for command in commands.values():
            run_command(command)
    for name, command in take_turns(commands.items(), rounds):
        start = time.perf_counter()
        run_command(command)
        measured[name].values.append(time.perf_counter() - start)
    return measured


def run_command(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints; one that fails says why."""
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode:
        raise RuntimeError(f"expected {words} to run, found exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


__all__ = ["Contender", "Measured", "alternate", "alternate_commands", "run_apart", "run_command", "take_turns"]
