"""Predictions that are killed again and again: `python kill_predictions.py MODEL INPUT OUTPUT KILLS SEED`.

Everything is imported and loaded once; each attempt is a forked process that is killed with SIGKILL at a random moment
after it has written a part or two. After so many kills the last attempt may end. Prints what the attempts found.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from greffe.inference import load_classifier, predict_file, prediction_job

prediction_job.WINDOW = 64  # many parts in a short time


def main() -> None:
    model, source, output, kills, seed = sys.argv[1:]
    torch.set_num_threads(1)
    classifier = load_classifier(model)
    draw = random.Random(int(seed))
    folder = Path(output).with_name(f".{Path(output).name}.parts")
    seen = []
    while True:
        seen.append(len(list(folder.glob("0*"))))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                predict_file(classifier, source, output)
                code = 0
            finally:
                os._exit(code)
        if len(seen) <= int(kills):
            wanted, end = seen[-1] + draw.choice([0, 1, 1, 2]), time.monotonic() + 60
            while len(list(folder.glob("0*"))) < wanted and time.monotonic() < end:
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            print(json.dumps({"code": os.WEXITSTATUS(status), "kills": len(seen) - 1, "seen": seen}))
            return


if __name__ == "__main__":
    main()
