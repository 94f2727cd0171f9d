"""Two processes that train together, again and again: `python forked_pair.py SCENARIOS.json`.

Everything is imported once; each attempt is a pair of forked processes with the variables that `torchrun` sets. An
attempt may be interrupted when its run has reached some step: a signal to one of the two, or to both. Prints how each
attempt of each scenario ended: two exit codes, negative for a signal.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from greffe.train.arguments import FinetuneArguments, PretrainArguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.finetune import finetune
from greffe.train.pretrain import pretrain
from greffe.train.stage_trainer import start_processes
from greffe.train.stopping import Stopped, StopSignals, TimeLimit
from transformers import TrainerControl, TrainingArguments

STAGES = {"pretrain": (pretrain, PretrainArguments), "finetune": (finetune, FinetuneArguments)}
PATIENCE = 200  # seconds


def start_pair(work: Callable[[], object]) -> list[int]:
    """Two processes that do this work together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [_start(rank, port, work) for rank in range(2)]


def _start(rank: int, port: int, work: Callable[[], object]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", **address)
        work()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait_for_pair(pair: list[int]) -> list[int]:
    codes: dict[int, int] = {}
    end = time.monotonic() + PATIENCE
    while len(codes) < 2:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child in pair:
            codes[child] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > end:
            for process in set(pair) - set(codes):
                os.kill(process, signal.SIGKILL)
            raise TimeoutError("the processes wait for each other")
        time.sleep(0.01)
    return [codes[child] for child in pair]


def run_stage(stage: str, options: dict) -> None:
    if stage == "agree":
        agree(Path(options["output"]))
    else:
        run, arguments_class = STAGES[stage]
        run(arguments_class(**{**options, "resume": True}))


def agree(folder: Path) -> None:
    """One step with a clock of its own, and a signal that only the second gets; writes what each makes of it."""
    rank = int(os.environ["RANK"])
    start_processes()
    limit = TimeLimit(max_minutes=10)
    limit.start(seconds=60.0 * (1 + rank))
    limit.on_pre_optimizer_step(None, None, None)
    signals, control = StopSignals(), TrainerControl()
    with suppress(Stopped), signals.heard():
        if rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        signals.on_step_end(TrainingArguments(use_cpu=True), None, control)
    group = torch.distributed.group.WORLD
    patience = group._get_backend(torch.device("cpu")).options._timeout.total_seconds()
    folder.mkdir(exist_ok=True)
    (folder / f"{rank}.json").write_text(json.dumps([limit.progress, signals.agreed, control.should_save, patience]))


def attempt(stage: str, options: dict, after: int | None, name: str, ranks: list[int]) -> list[int]:
    pair = start_pair(partial(run_stage, stage, options))
    if after is not None:
        end = time.monotonic() + PATIENCE
        while newest_step(Path(options["output"])) < after and time.monotonic() < end:
            time.sleep(0.005)
        for rank in ranks:
            os.kill(pair[rank], signal.Signals[name])
    return wait_for_pair(pair)


def newest_step(folder: Path) -> int:
    return max((int(path.name.removeprefix("checkpoint-")) for path in list_checkpoints(folder)), default=0)


def main() -> None:
    scenarios = json.loads(Path(sys.argv[1]).read_text())
    ends = {
        name: [attempt(stage, options, *each) for each in attempts]
        for name, (stage, options, attempts) in scenarios.items()
    }
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
