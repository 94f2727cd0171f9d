"""Run every benchmark, one after the other."""

from __future__ import annotations

import runpy
import sys

BENCHMARKS = ("loss",)

if __name__ == "__main__":
    for name in BENCHMARKS:
        sys.argv[0] = f"benchmarks.{name}"
        print(f"== {name}", flush=True)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
