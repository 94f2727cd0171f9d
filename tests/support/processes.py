"""Stages in processes of their own: killed again and again, or two at once."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

KILL_LOOP = Path(__file__).with_name("kill_loop.py")


def flags_of(arguments: Any) -> list[str]:
    """The command line that gives these arguments."""
    flags = []
    for name, value in asdict(arguments).items():
        if value is not None and value != "":
            flags += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return flags


def kill_again_and_again(stage: str, arguments: Any, folder: Path, kills: int = 20, seed: int = 5) -> list[str]:
    """Run a stage to its end through so many kills; returns the newest checkpoint that each attempt found."""
    options = asdict(arguments)
    del options["resume"]
    (folder / "arguments.json").write_text(json.dumps(options))
    command = [sys.executable, KILL_LOOP, stage, folder / "arguments.json", str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=400)
    if done.returncode or json.loads(done.stdout.splitlines()[-1])["code"]:
        raise AssertionError(done.stderr[-3000:])
    result = json.loads(done.stdout.splitlines()[-1])
    if result["kills"] != kills:
        raise AssertionError(f"killed {result['kills']} times only")
    return ["".join(names) for names in result["seen"]]


def run_two_processes(stage: str, arguments: Any, folder: Path) -> None:
    """A stage on two processes of this machine, as `torchrun` starts them."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d"]
    command += ["--rdzv_endpoint", "localhost:0", "-m", f"greffe.train.{stage}", *flags_of(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
