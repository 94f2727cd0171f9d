"""One of several processes that pre-train together; `benchmarks.growth` starts it, alone or under torchrun."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path

from .workload import Workload

_WARM_UP = 2


class Stopwatch:
    """Counts steps as a gate does, but ends the process after the last. All processes of a run end at the same step."""

    def __init__(self, steps: int):
        self._left = _WARM_UP + steps
        self._measured = steps
        self._tokens = 0.0

    def step(self, **counts: float) -> None:
        self._left -= 1
        if self._left >= self._measured:
            self._start = time.perf_counter()
            return
        self._tokens += counts["tokens"]
        if self._left:
            return
        rate = self._tokens * int(os.environ.get("WORLD_SIZE", "1")) / (time.perf_counter() - self._start)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps({"tokens/s": rate}), flush=True)
        raise SystemExit


def main() -> None:
    from . import ours

    workload: Workload = pickle.loads(Path(sys.argv[1]).read_bytes())
    ours.pretrain(Stopwatch(workload.steps), workload)


if __name__ == "__main__":
    main()
