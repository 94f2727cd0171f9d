"""A run that is killed again and again: `python kill_loop.py STAGE ARGUMENTS.json KILLS SEED`.

Everything is imported once; each attempt is a forked process that runs the stage with `resume=True`, and is killed
with SIGKILL at a random moment. After so many kills the last attempt may end. Prints what the attempts continued from.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from greffe.train.arguments import FinetuneArguments, PretrainArguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.finetune import finetune
from greffe.train.pretrain import pretrain

STAGES = {"pretrain": (pretrain, PretrainArguments), "finetune": (finetune, FinetuneArguments)}


def attempt(stage: str, options: dict) -> None:
    torch.set_num_threads(1)
    run, arguments_class = STAGES[stage]
    run(arguments_class(**options, resume=True))


def wait(folder: Path, checkpoints: int, draw: random.Random) -> None:
    """Until so many new checkpoints are there, and then a random while: machines are of different speeds."""
    newest, end = list_checkpoints(folder)[-1:], time.monotonic() + 60
    # Before the first step, the time that a start takes; later, that of a few steps and saves.
    longest = 0.1 if checkpoints else 1.0
    while checkpoints and time.monotonic() < end:
        time.sleep(0.005)
        if list_checkpoints(folder)[-1:] != newest:
            newest = list_checkpoints(folder)[-1:]
            checkpoints -= 1
    time.sleep(draw.uniform(0, longest))


def main() -> None:
    stage, path, kills, seed = sys.argv[1:]
    options = json.loads(Path(path).read_text())
    draw = random.Random(int(seed))
    seen = []
    while True:
        seen.append([checkpoint.name for checkpoint in list_checkpoints(Path(options["output"]))][-1:])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                attempt(stage, options)
                code = 0
            finally:
                os._exit(code)
        if len(seen) <= int(kills):
            wait(Path(options["output"]), checkpoints=draw.choice([0, 1, 1, 2]), draw=draw)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            print(json.dumps({"code": os.WEXITSTATUS(status), "kills": len(seen) - 1, "seen": seen}))
            return


if __name__ == "__main__":
    main()
