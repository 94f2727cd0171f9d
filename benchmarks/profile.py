"""Where the time of a step goes: the operators that take most of it, in training, classification and generation.

A step of classification is a pass over 800 texts, of generation a text of 100 new tokens. Milliseconds are of a step
and of the operator itself, without the operators that it calls. What no operator accounts for is Python: `Trainer`, the
loader, tokenization, the lines of the model. To look at operators takes time too: where they are many and small, the
step is slower than without.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .command_line import prepare_environment, print_text
from .rounds import run_apart
from .sizes import SIZES
from .workload import Workload, write_corpus, write_labelled, write_tokenizer

_WARM_UP = 3
_TEXTS, _PROMPT = 800, (1, 100)  # texts of a classifier; prompts and new tokens of a language model
_WORK = ("pretrain", "finetune", "classify", "generate")
# The module of each contender, and what its functions take after the workload.
_CONTENDERS: dict[str, tuple[str, dict[str, tuple[Any, ...]]]] = {
    "greffe": ("ours", {"pretrain": (), "finetune": (), "classify": (), "generate": _PROMPT}),
    "reference": ("reference", {"pretrain": (), "finetune": ()}),
    "gpt2": (
        "gpt2",
        {"pretrain": (), "finetune": ("max_length",), "classify": ("max_length",), "generate": _PROMPT},
    ),
    "nanogpt": ("nanogpt", {"pretrain": ()}),
}


@dataclass(frozen=True)
class Operator:
    name: str
    shapes: str
    calls: float  # a step
    milliseconds: float  # a step


class _Profiler:
    """Counts steps as a gate does, and looks at those after the first few."""

    def __init__(self, steps: int, shapes: bool):
        from torch.profiler import ProfilerActivity, profile

        self.steps, self.done = steps, 0
        self.profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=shapes)

    def step(self, **counts: float) -> None:
        self.done += 1
        if self.done == _WARM_UP:
            self.profiler.start()
            self.start = time.perf_counter()
        elif self.done == _WARM_UP + self.steps:
            self.seconds = time.perf_counter() - self.start
            self.profiler.stop()
            raise SystemExit


def profile_steps(
    module: str, work: str, arguments: tuple[Any, ...], steps: int, shapes: bool
) -> tuple[float, list[Operator]]:
    """Milliseconds of a step, and its operators, the slowest first."""
    profiler = _Profiler(steps, shapes)
    with suppress(SystemExit):
        getattr(importlib.import_module(f"benchmarks.{module}"), work)(profiler, *arguments)
    operators = [
        Operator(event.key, str(event.input_shapes), event.count / steps, event.self_cpu_time_total / 1e3 / steps)
        for event in profiler.profiler.key_averages(group_by_input_shape=shapes)
    ]
    return profiler.seconds * 1e3 / steps, sorted(operators, key=lambda operator: -operator.milliseconds)


def print_operators(title: str, milliseconds: float, operators: list[Operator], rows: int, shapes: bool) -> None:
    print(f"\n{title}: {milliseconds:,.1f} ms a step")
    print(f"{'operator':<60}{'calls':>8}{'ms':>10}{'share':>8}")
    for operator in operators[:rows]:
        share = operator.milliseconds / milliseconds
        line = f"{operator.name[:59]:<60}{operator.calls:>8,.0f}{operator.milliseconds:>10,.2f}{share:>8.1%}"
        print(f"{line}  {operator.shapes}" if shapes else line)
    others = sum(operator.milliseconds for operator in operators[rows:])
    outside = milliseconds - sum(operator.milliseconds for operator in operators)
    print(f"{'other operators':<68}{others:>10,.2f}{others / milliseconds:>8.1%}")
    print(f"{'no operator: Python':<68}{outside:>10,.2f}{outside / milliseconds:>8.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contender", choices=_CONTENDERS, default="greffe", help="whose steps (default: greffe)")
    parser.add_argument("--work", nargs="+", choices=_WORK, help="which steps (default: all that the contender has)")
    parser.add_argument("--size", choices=SIZES, default="experiment", help="of the model (default: experiment)")
    parser.add_argument("--block_size", type=int, default=256, metavar="N", help="tokens in a row (default: 256)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="so many are looked at (default: 10)")
    parser.add_argument("--rows", type=int, default=15, metavar="N", help="operators that are listed (default: 15)")
    parser.add_argument("--shapes", action="store_true", help="tell operators apart by the shapes they work on")
    parser.add_argument("--corpus", nargs="+", metavar="FILE", help="text to work on (default: film reviews)")
    parser.add_argument("--labelled", metavar="FILE", help="labelled texts (default: film reviews)")
    options = parser.parse_args()
    module, functions = _CONTENDERS[options.contender]
    missing = [work for work in options.work or () if work not in functions]
    if missing:
        parser.error(f"expected --work of {options.contender} among {', '.join(functions)}, found {', '.join(missing)}")
    prepare_environment()
    print_text(options.corpus, options.labelled)
    size = SIZES[options.size]
    with tempfile.TemporaryDirectory(prefix="greffe-bench-") as name:
        folder = Path(name)
        write_corpus(folder, 3, options.corpus)
        write_labelled(folder, _TEXTS, options.labelled)
        tokenizer = write_tokenizer(folder, size.vocabulary)
        workload = Workload(size, folder, tokenizer, block_size=options.block_size, steps=options.steps)
        for work in options.work or functions:
            milliseconds, operators = run_apart(
                "profile.profile_steps", module, work, (workload, *functions[work]), options.steps, options.shapes
            )
            title = f"{options.contender}, {work}, {size.name}"
            print_operators(title, milliseconds, operators, options.rows, options.shapes)


if __name__ == "__main__":
    main()
