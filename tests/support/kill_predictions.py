"""Predictions that are killed again and again: `python kill_predictions.py MODEL INPUT KILLS SEED OUTPUT…`.

Everything is imported and loaded once; each attempt is a forked process that is killed with SIGKILL at a random moment
after it has written a part or two. After so many kills the last attempt may end. Prints, for each output, how many
parts the attempts found.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from greffe.inference import Classifier, load_classifier, predict_file, prediction_job

prediction_job.WINDOW = 64  # many parts in a short time


def attempt(classifier: Classifier, source: str, output: Path) -> int:
    """Start a process that predicts; its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            predict_file(classifier, source, output)
            code = 0
        finally:
            os._exit(code)
    return child


def count_parts(output: Path) -> int:
    return len(list(output.with_name(f".{output.name}.parts").glob("0*")))


def run(classifier: Classifier, source: str, output: Path, kills: int, draw: random.Random) -> list[int]:
    seen = []
    while True:
        seen.append(count_parts(output))
        child = attempt(classifier, source, output)
        if len(seen) <= kills:
            wanted, end = seen[-1] + draw.choice([0, 1, 1, 2]), time.monotonic() + 60
            while count_parts(output) < wanted and time.monotonic() < end:
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"an attempt failed with code {os.WEXITSTATUS(status)}")
        if output.exists():  # ended, or killed after it had given the file its name
            return seen


def main() -> None:
    model, source, kills, seed, *outputs = sys.argv[1:]
    torch.set_num_threads(1)
    classifier, draw = load_classifier(model), random.Random(int(seed))
    print(json.dumps([run(classifier, source, Path(output), int(kills), draw) for output in outputs]))


if __name__ == "__main__":
    main()
