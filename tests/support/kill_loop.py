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
from greffe.train import arguments as stage_arguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.pretrain import pretrain


def attempt(stage: str, options: dict) -> None:
    torch.set_num_threads(1)
    arguments_class = {"pretrain": stage_arguments.PretrainArguments}[stage]
    {"pretrain": pretrain}[stage](arguments_class(**options, resume=True))


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
            time.sleep(draw.uniform(0.1, 1.6))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            print(json.dumps({"code": os.WEXITSTATUS(status), "kills": len(seen) - 1, "seen": seen}))
            return


if __name__ == "__main__":
    main()
