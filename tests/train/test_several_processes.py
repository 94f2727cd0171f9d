"""Two processes: they stop after the same step, whoever is told to, and go on as if they had not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from greffe.train.checkpoints import find_fault, list_checkpoints
from greffe.train.finetune import finetune
from processes import flags_of
from tiny_stages import assert_same_weights, finetune_options, pretrain_options, unfinish

# After which step, which signal, to which of the two.
Attempt = tuple[int | None, str, list[int]]
TO_THE_END: Attempt = (None, "", [])
PAIR = Path(__file__).parents[1] / "support" / "forked_pair.py"


# In the middle of the first epoch, and in that of the second.
STOPPED: list[Attempt] = [(3, "SIGTERM", [1]), (24, "SIGKILL", [0, 1]), TO_THE_END]
# A rate at which nothing is learned: evaluations soon get no better.
VAIN = {"early_stopping_patience": 2, "eval_steps": 2, "learning_rate": 5.0, "max_grad_norm": 0.0, "max_steps": 99}
CLASSIFIER = {"per_device_train_batch_size": 2, "num_train_epochs": 2, "save_steps": 3}
TIMED = {"max_minutes": 0.02, "max_steps": -1, "save_steps": 10_000, "eval_steps": 10_000}


@dataclass(frozen=True)
class Pairs:
    """What pairs of processes did: how each attempt of each run ended, as two exit codes, and what was said."""

    folder: Path
    ends: dict[str, list[list[int]]]
    said: str


@pytest.fixture(scope="module")
def pairs(tiny_corpus: Path, tiny_base: Path, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """All of them in one go: starting takes longer than training."""
    folder = tmp_path_factory.mktemp("pairs")
    causal = {"per_device_train_batch_size": 8, "max_steps": 33}  # an epoch has 22 steps, of the classifier 16
    scenarios: dict[str, Any] = {"agree": ("agree", {"output": str(folder / "agree")}, [TO_THE_END])}
    for name, changes, attempts in (
        ("pretrain", causal, [TO_THE_END]),
        ("pretrain-stopped", causal, STOPPED),
        ("timed", TIMED, [TO_THE_END]),
        ("vain", VAIN, [TO_THE_END]),
    ):
        options = asdict(pretrain_options(tiny_corpus, folder / name, **changes))
        scenarios[name] = ("pretrain", options, attempts)
    for name, attempts in (("finetune", [TO_THE_END]), ("finetune-stopped", STOPPED)):
        options = asdict(finetune_options(tiny_base, labelled, folder / name, **CLASSIFIER))
        scenarios[name] = ("finetune", options, attempts)
    (folder / "scenarios.json").write_text(json.dumps(scenarios))
    command = [sys.executable, PAIR, folder / "scenarios.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return Pairs(folder, json.loads(done.stdout.splitlines()[-1]), done.stderr)


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_they_stop_together_and_continue(stage: str, pairs: Pairs) -> None:
    """A signal to one of them, then both killed: the weights are those of two that nothing stopped."""
    assert pairs.ends[stage] == [[0, 0]]
    assert pairs.ends[f"{stage}-stopped"] == [[143, 143], [-9, -9], [0, 0]]
    assert_same_weights(pairs.folder / stage, pairs.folder / f"{stage}-stopped")
    epochs = [entry["epoch"] for entry in newest_state(pairs.folder / stage)["log_history"]]
    assert epochs[-1] > 1


def newest_state(folder: Path) -> dict[str, Any]:
    return json.loads((list_checkpoints(folder)[-1] / "trainer_state.json").read_text())


def test_one_does_not_go_on_with_the_run_of_two(
    pairs: Pairs, tiny_base: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its batches would be of another size, and its draws others."""
    unfinish(pairs.folder / "finetune", tmp_path / "run")
    options = finetune_options(tiny_base, labelled, tmp_path / "run", **CLASSIFIER, resume=True)
    with pytest.raises(ValueError, match=r"expected 2 processes, .*, found 1; start as many"):
        finetune(options)


def test_one_of_them_speaks(pairs: Pairs) -> None:
    assert pairs.said.count("stopped by SIGTERM after step") == 2  # once for each stage
    assert pairs.said.count("continuing from checkpoint-") == 4


def test_the_clock_and_early_stopping_end_both(pairs: Pairs) -> None:
    assert (pairs.ends["timed"], pairs.ends["vain"]) == ([[0, 0]], [[0, 0]])
    timed, vain = (json.loads((pairs.folder / name / "greffe.json").read_text()) for name in ("timed", "vain"))
    assert timed["seconds"] >= 1.2
    assert vain["steps"] < 99


def test_they_agree_on_signals_and_clocks(pairs: Pairs) -> None:
    """Each of the two has a clock of its own, and only the second gets the signal."""
    first, second = (json.loads((pairs.folder / "agree" / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert first[0] == pytest.approx(0.2, abs=0.01)
    assert first[1:3] == [signal.SIGTERM, True]
    assert first[3] == 24 * 60 * 60, "the others wait no longer than this for the first, which may have much to read"


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
