"""Every benchmark, one after the other, and what was reached of the targets. `make bench` runs this."""

from __future__ import annotations

import importlib
import time

from .command_line import finish, measure, parse_options, prepare_environment, print_origin
from .report import Case
from .rounds import run_apart
from .targets import print_targets

BENCHMARKS = ("ceiling", "loss", "pretrain", "finetune", "classify", "generate", "startup", "prepare", "growth")


def main() -> None:
    options = parse_options(__doc__, BENCHMARKS)
    prepare_environment(options.threads)
    machine = run_apart("report.describe_machine")
    print_origin(machine, options)
    cases: list[Case] = []
    start = time.monotonic()
    names = options.names or BENCHMARKS
    for number, name in enumerate(names, 1):
        minutes = (time.monotonic() - start) / 60
        print(f"\n== {name} ({number} of {len(names)}, after {minutes:.0f} min)", flush=True)
        for case in measure(importlib.import_module(f"benchmarks.{name}").run, options):
            cases.append(case)
            finish(cases, machine, options)  # what is measured is kept, whatever comes
    print_targets(cases)


if __name__ == "__main__":
    main()
