"""What the command lines of all benchmarks share: options, a folder to work in, tables, JSON."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from .report import Case, print_case, write_json
from .rounds import run_apart
from .sizes import SIZES, Size
from .targets import judge_targets
from .text import describe_text

Value = TypeVar("Value")
Run = Callable[["Options", Path], Iterable[Case]]

# Contenders must not ask the network for anything, nor write beside the tables.
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}


@dataclass(frozen=True)
class Options:
    names: list[str]  # of benchmarks, where several can be run
    quick: bool
    json: Path | None
    corpus: list[str] | None
    labelled: str | None
    sizes: list[str] | None
    rounds: int | None
    threads: int | None
    compile: bool

    def pick(self, full: Value, quick: Value) -> Value:
        return quick if self.quick else full

    def count_rounds(self, full: int = 3) -> int:
        return self.rounds or self.pick(full, 2)

    def choose_sizes(self, *names: str) -> list[Size]:
        return [SIZES[name] for name in self.sizes or names]


def parse_options(description: str | None, benchmarks: Sequence[str] = ()) -> Options:
    """The options of a command line; with `benchmarks`, also which of them to run."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if benchmarks:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"among {', '.join(benchmarks)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less of everything: to see that it runs, not to quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values there too")
    parser.add_argument("--corpus", nargs="+", metavar="FILE", help="text to work on (default: film reviews)")
    parser.add_argument("--labelled", metavar="FILE", help="labelled texts (default: film reviews)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="of the models, in place of the benchmark's own")
    parser.add_argument("--rounds", type=int, metavar="N", help="how many times each contender has its turn")
    parser.add_argument("--threads", type=int, metavar="N", help="of each contender (default: one for each core)")
    parser.add_argument("--compile", action="store_true", help="also measure the minimal loop under torch.compile")
    options = Options(**{"names": [], **vars(parser.parse_args())})
    unknown = [name for name in options.names if name not in benchmarks]
    if unknown:
        parser.error(f"expected benchmarks among {', '.join(benchmarks)}, found {', '.join(unknown)}")
    for name in ("rounds", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"expected --{name} of at least 1, found {value}")
    return options


def main(run: Run, description: str | None) -> None:
    """The command line of one benchmark."""
    options = parse_options(description)
    prepare_environment(options.threads)
    machine = run_apart("report.describe_machine")
    print_origin(machine, options)
    finish(list(measure(run, options)), machine, options)


def prepare_environment(threads: int | None = None) -> None:
    """What processes that start from now on find; the first contender starts them all."""
    os.environ.update(_ENVIRONMENT)
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)


def measure(run: Run, options: Options) -> Iterator[Case]:
    """The cases of a benchmark, each printed as soon as it is measured."""
    with tempfile.TemporaryDirectory(prefix="greffe-bench-") as folder:
        for case in run(options, Path(folder)):
            print_case(case)
            yield case


def print_origin(machine: dict[str, object], options: Options) -> None:
    """Where the figures come from: the machine and the text."""
    bf16 = "native bf16" if machine["native_bf16"] else "no native bf16"
    print(f"{machine['processor']}, {machine['cores']} cores, {bf16}, {machine['threads']} threads")
    print_text(options.corpus, options.labelled)


def print_text(corpus: Sequence[str] | None, labelled: str | None) -> None:
    for name, text in describe_text(corpus, labelled).items():
        print(f"{name}: {text}", flush=True)


def finish(cases: Sequence[Case], machine: dict[str, object], options: Options) -> None:
    if options.json is not None:
        about = {
            "machine": machine,
            "text": describe_text(options.corpus, options.labelled),
            "options": asdict(options),
            "targets": judge_targets(cases),
        }
        write_json(options.json, cases, about)


__all__ = ["Options", "finish", "main", "measure", "parse_options", "prepare_environment", "print_origin", "print_text"]
