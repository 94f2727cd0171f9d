"""Two processes: they stop after the same step, whoever is told to, and go on as if they had not."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from environments import run_python
from greffe.train.arguments import FinetuneArguments, PretrainArguments
from greffe.train.checkpoints import find_fault, list_checkpoints
from processes import flags_of
from tiny_stages import assert_same_weights, finetune_options, pretrain_options

# After which step, which signal, to which of the two.
Attempt = tuple[int | None, str, list[int]]
TO_THE_END: Attempt = (None, "", [])
PAIR = Path(__file__).parents[1] / "support" / "forked_pair.py"


def run_pairs(stage: str, runs: list[tuple[Any, list[Attempt]]], folder: Path) -> tuple[list[list[list[int]]], str]:
    """How each attempt of each run ended, as two exit codes, and what was said."""
    scenarios = []
    for arguments, attempts in runs:
        options = asdict(arguments)
        del options["resume"]
        scenarios.append([stage, options, attempts])
    (folder / "scenarios.json").write_text(json.dumps(scenarios))
    command = [sys.executable, PAIR, folder / "scenarios.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def check_stops_and_continues(stage: str, make_options: Callable[[Path], Any], tmp_path: Path) -> None:
    stopped: list[Attempt] = [(3, "SIGTERM", [1]), (6, "SIGKILL", [0, 1]), TO_THE_END]
    runs = [(make_options(tmp_path / "whole"), [TO_THE_END]), (make_options(tmp_path / "run"), stopped)]
    ends, said = run_pairs(stage, runs, tmp_path)
    assert ends == [[[0, 0]], [[143, 143], [-9, -9], [0, 0]]]
    assert said.count("stopped by SIGTERM after step") == 1  # one of the two says so
    assert said.count("continuing from checkpoint-") == 2
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


def test_pretraining_stops_together_and_continues(tiny_corpus: Path, tmp_path: Path) -> None:
    def make_options(output: Path) -> PretrainArguments:
        return pretrain_options(tiny_corpus, output, per_device_train_batch_size=2, max_steps=24)

    check_stops_and_continues("pretrain", make_options, tmp_path)


def test_finetuning_stops_together_and_continues(tiny_base: Path, labelled: Path, tmp_path: Path) -> None:
    def make_options(output: Path) -> FinetuneArguments:
        changes = {"per_device_train_batch_size": 2, "num_train_epochs": 2, "save_steps": 3}
        return finetune_options(tiny_base, labelled, output, **changes)

    check_stops_and_continues("finetune", make_options, tmp_path)


def test_the_clock_and_early_stopping_end_both(tiny_corpus: Path, tmp_path: Path) -> None:
    timed = {"max_minutes": 0.02, "max_steps": -1, "save_steps": 10_000, "eval_steps": 10_000}
    # A rate at which nothing is learned: evaluations soon get no better.
    early = {"early_stopping_patience": 2, "eval_steps": 2, "learning_rate": 5.0, "max_grad_norm": 0.0, "max_steps": 99}
    runs = [(pretrain_options(tiny_corpus, tmp_path / "timed", **timed), [TO_THE_END])]
    runs += [(pretrain_options(tiny_corpus, tmp_path / "early", **early), [TO_THE_END])]
    ends, _ = run_pairs("pretrain", runs, tmp_path)
    assert ends == [[[0, 0]], [[0, 0]]]
    timed_record, early_record = (json.loads((tmp_path / n / "greffe.json").read_text()) for n in ("timed", "early"))
    assert timed_record["seconds"] >= 1.2
    assert early_record["steps"] < 99


def test_processes_agree_on_signals_and_clocks(tmp_path: Path) -> None:
    """Each of the two has a clock of its own, and only the second gets the signal."""
    code = """
import json, os, signal
from accelerate import PartialState
from forked_pair import start_pair, wait_for_pair
from greffe.train.stopping import StopSignals, TimeLimit
from transformers import TrainerControl, TrainingArguments

def agree():
    rank = int(os.environ["RANK"])
    PartialState(cpu=True)
    limit = TimeLimit(max_minutes=10)
    limit.start(seconds=60.0 * (1 + rank))
    limit.on_pre_optimizer_step(None, None, None)
    signals, control = StopSignals(), TrainerControl()
    with signals.heard():
        if rank == 1: os.kill(os.getpid(), signal.SIGTERM)
        signals.on_step_end(TrainingArguments(use_cpu=True), None, control)
    with open(f"{rank}.json", "w") as file:
        json.dump([limit.progress, signals.agreed, control.should_save], file)

print(wait_for_pair(start_pair(agree)))
"""
    assert run_python(sys.executable, code, tmp_path, PYTHONPATH=str(PAIR.parent)) == [0, 0]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert first[0] == pytest.approx(0.2, abs=0.01)
    assert first[1:] == [signal.SIGTERM, True]


def test_ctrl_c_under_torchrun(tiny_corpus: Path, tmp_path: Path) -> None:
    """The terminal interrupts all processes, and torchrun passes it on: they get it twice, and save all the same."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d"]
    command += ["--rdzv_endpoint", "localhost:0", "-m", "greffe.train.pretrain"]
    command += flags_of(pretrain_options(tiny_corpus, folder, max_steps=100_000))
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    )
    end = time.monotonic() + 120
    while not list_checkpoints(folder):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    step = int(said.split("stopped by SIGINT after step ")[1].split(";")[0])
    assert list_checkpoints(folder)[-1].name == f"checkpoint-{step}"
    assert find_fault(list_checkpoints(folder)[-1]) is None
