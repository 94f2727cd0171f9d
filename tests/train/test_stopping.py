"""What ends a run early, and that a run which is continued after it ends as one that never stopped."""

import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from greffe.modeling import GreffeForCausalLM
from greffe.tokenization import load_tokenizer
from greffe.train import finetune as stage
from greffe.train import pretrain as first_stage
from greffe.train.arguments import FinetuneArguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.cli import main
from greffe.train.pretrain import pretrain
from greffe.train.run_folder import open_run
from greffe.train.stage_trainer import StageTrainer
from greffe.train.stopping import Stopped, handle_signals, stop_at_once, timed_schedule
from processes import flags_of
from tiny_stages import assert_same_weights, finetune_options, pretrain_options, unfinish
from transformers import TrainerCallback, TrainerState


class SignalAfter(TrainerCallback):
    """Sends this process a signal after some step."""

    def __init__(self, step: int):
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


class SignalInLastEvaluation(TrainerCallback):
    """Sends this process a signal when there are no more steps to come."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:
            os.kill(os.getpid(), signal.SIGTERM)


def send_signal(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def fit_alone(arguments: FinetuneArguments, progress: TrainerCallback | None = None) -> None:
    """Fine-tuning up to the moment in which the model would be written."""
    data, tokenizer = stage.read_parts(arguments), load_tokenizer(arguments.model)
    rows = {n: stage.make_rows(part, data.labels, tokenizer, arguments, n) for n, part in data.parts.items()}
    with open_run(arguments) as folder:
        stage.fit(arguments, data.labels, tokenizer, rows, folder, progress)


@pytest.fixture(scope="module")
def up_and_down(tiny_base: Path, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> FinetuneArguments:
    """A run whose rate is far too high: its last epoch is not its best one."""
    changes = {"num_train_epochs": 5, "learning_rate": 0.3, "truncation": "head"}
    arguments = finetune_options(tiny_base, labelled, tmp_path_factory.mktemp("run") / "whole", **changes)
    record = stage.finetune(arguments)
    assert record["steps"] == 5 * 16
    assert record["best_step"] < 5 * 16
    return arguments


@pytest.mark.parametrize("step", [7, 15])
def test_a_signal_does_not_count_as_an_epoch(step: int, up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    """16 steps an epoch: in its middle, where nothing is to be evaluated, or in its last step, where all is."""
    arguments = replace(up_and_down, output=str(tmp_path / "run"))
    with pytest.raises(SystemExit) as end:
        fit_alone(arguments, SignalAfter(step))
    assert end.value.code == 128 + signal.SIGTERM
    assert [path.name for path in list_checkpoints(tmp_path / "run")] == [f"checkpoint-{step + 1}"]
    record = stage.finetune(replace(arguments, resume=True))
    whole = json.loads((Path(up_and_down.output) / "greffe.json").read_text())
    assert [entry["eval_accuracy"] for entry in record["epochs"]] == [e["eval_accuracy"] for e in whole["epochs"]]
    assert record["best_step"] == whole["best_step"]
    assert_same_weights(Path(up_and_down.output), tmp_path / "run")


def test_a_signal_in_the_last_evaluation(up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    """There is no step more to wait for; what follows may take long."""
    arguments = replace(up_and_down, output=str(tmp_path / "run"))
    with pytest.raises(SystemExit) as end:
        fit_alone(arguments, SignalInLastEvaluation())
    assert end.value.code == 128 + signal.SIGTERM
    stage.finetune(replace(arguments, resume=True))
    assert_same_weights(Path(up_and_down.output), tmp_path / "run")


@pytest.mark.parametrize("place", ["prepare_tokenizer", "tokenize_corpus", "start_embeddings"])
def test_a_signal_before_training_leaves_nothing_behind(
    place: str,
    tiny_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(first_stage, place, send_signal)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        pretrain(pretrain_options(tiny_corpus, tmp_path / "run"))
    assert end.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err.splitlines()[-1] == "stopped by SIGTERM; nothing was saved: start it again"
    assert not (tmp_path / "run").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_after_training_keeps_what_is_saved(
    up_and_down: FinetuneArguments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = replace(up_and_down, output=str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(stage, "measure", send_signal)
        with pytest.raises(SystemExit) as end:
            stage.finetune(arguments)
    assert end.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err.splitlines()[-1] == "stopped by SIGTERM; continue with --resume"
    stage.finetune(replace(arguments, resume=True))
    assert_same_weights(Path(up_and_down.output), tmp_path / "run")


def test_a_run_without_checkpoints_does_not_promise_to_go_on(
    up_and_down: FinetuneArguments, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = replace(up_and_down, output=str(tmp_path / "run"), save_steps=-1)
    with pytest.raises(SystemExit):
        fit_alone(arguments, SignalAfter(7))
    said = capsys.readouterr().err.splitlines()
    assert "stopped by SIGTERM after step 8; nothing was saved: start it again" in said
    assert not (tmp_path / "run").exists()


def test_the_head_of_a_frozen_trunk_goes_on(up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    """Its checkpoints hold the head alone."""
    arguments = replace(up_and_down, output=str(tmp_path / "whole"), freeze="trunk", classifier_dropout=0.1)
    stage.finetune(arguments)
    arguments = replace(arguments, output=str(tmp_path / "run"))
    with pytest.raises(SystemExit):
        fit_alone(arguments, SignalAfter(20))
    stage.finetune(replace(arguments, resume=True))
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


def test_the_best_epoch_outlives_a_kill_at_the_end(up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    arguments = replace(up_and_down, output=str(tmp_path / "run"))
    fit_alone(arguments)  # and the model is never written
    stage.finetune(replace(arguments, resume=True))
    assert_same_weights(Path(up_and_down.output), tmp_path / "run")
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_a_run_that_had_ended_takes_no_step_more(tiny_corpus: Path, tmp_path: Path) -> None:
    """Killed between the last checkpoint and the model; the corpus is longer than the run, so a step more is there."""
    pretrain(pretrain_options(tiny_corpus, tmp_path / "whole"))
    unfinish(tmp_path / "whole", tmp_path / "run")
    record = pretrain(pretrain_options(tiny_corpus, tmp_path / "run", resume=True))
    assert record["steps"] == 12
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


def test_early_stopping_remembers_how_long_it_waited(tiny_corpus: Path, tmp_path: Path) -> None:
    # A rate at which nothing is learned: evaluations soon get no better.
    changes = {
        "early_stopping_patience": 3, "learning_rate": 5.0, "eval_steps": 4, "save_steps": 2, "max_steps": 200,
        "max_grad_norm": 0.0, "save_total_limit": 100, "warmup_steps": 0, "embeddings": "random",
    }  # fmt: skip
    whole = pretrain(pretrain_options(tiny_corpus, tmp_path / "whole", **changes))
    last = whole["steps"]
    assert 12 < last < 200
    for newest in (last - 6, last):  # between evaluations, and at the end
        folder = tmp_path / f"from-{newest}"
        unfinish(tmp_path / "whole", folder)
        for step in range(newest + 2, last + 1, 2):
            (folder / f"checkpoint-{step}" / "manifest.json").unlink()
        record = pretrain(pretrain_options(tiny_corpus, folder, resume=True, **changes))
        assert record["steps"] == last
        assert_same_weights(tmp_path / "whole", folder)


def test_finetuning_stops_early(up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    """Nothing moves, so nothing gets better: the first epoch is the best, and two more are waited for."""
    changes = {"early_stopping_patience": 2, "learning_rate": 0.0, "num_train_epochs": 9}
    record = stage.finetune(replace(up_and_down, output=str(tmp_path / "run"), **changes))
    assert (record["steps"], record["best_step"]) == (3 * 16, 16)


def test_finetuning_stops_by_the_clock(up_and_down: FinetuneArguments, tmp_path: Path) -> None:
    """In the middle of an epoch, which is measured all the same, and after more of them than were asked for."""
    changes = {"max_minutes": 0.03, "num_train_epochs": 1}
    record = stage.finetune(replace(up_and_down, output=str(tmp_path / "run"), **changes))
    assert record["seconds"] >= 1.8
    assert record["steps"] > 16
    assert record["epochs"][-1]["step"] == record["steps"]


def test_a_timed_run_goes_on_with_the_time_that_is_left(tiny_corpus: Path, tmp_path: Path) -> None:
    """The learning rate tells the time: it falls in a line to the end of the minutes, and does not start anew."""
    changes = {
        "max_steps": -1, "max_minutes": 0.04, "save_steps": 1, "save_total_limit": 1000, "eval_steps": 10_000,
        "lr_scheduler_type": "linear", "warmup_steps": 0, "learning_rate": 1e-3,
    }  # fmt: skip
    first = pretrain(pretrain_options(tiny_corpus, tmp_path / "first", **changes))
    assert first["seconds"] >= 2.4
    unfinish(tmp_path / "first", tmp_path / "again")
    again = pretrain(pretrain_options(tiny_corpus, tmp_path / "again", resume=True, **changes))
    assert again["steps"] == first["steps"]  # its time was over
    unfinish(tmp_path / "first", tmp_path / "rest")
    checkpoints = list_checkpoints(tmp_path / "rest")
    middle, *later = checkpoints[len(checkpoints) // 3 :]
    assert later
    for checkpoint in later:
        shutil.rmtree(checkpoint)
    pretrain(pretrain_options(tiny_corpus, tmp_path / "rest", resume=True, **changes))
    rates = [rate_of(path) for path in list_checkpoints(tmp_path / "rest")]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0 < rate_of(middle)


def rate_of(checkpoint: Path) -> float:
    (rate,) = set(torch.load(checkpoint / "scheduler.pt", weights_only=True)["_last_lr"])
    return rate


def history(checkpoint: Path) -> list[dict[str, Any]]:
    return json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]


def test_a_run_in_another_thread_needs_no_signals(tiny_corpus: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        record = pool.submit(pretrain, pretrain_options(tiny_corpus, tmp_path / "run", max_steps=1)).result()
    assert record["steps"] == 1


class SignalWhenDeleted:
    """Has a signal arrive where Python drops what its handler raises."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_a_signal_while_something_is_deleted_is_not_lost() -> None:
    def delete_and_go_on() -> None:
        SignalWhenDeleted()
        time.sleep(60)

    before = signal.getsignal(signal.SIGINT)
    with handle_signals(stop_at_once), pytest.raises(Stopped) as stopped:
        delete_and_go_on()
    assert stopped.value.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) == before


def test_a_timed_run_without_validation(tiny_corpus: Path, tmp_path: Path) -> None:
    changes = {"max_steps": -1, "max_minutes": 0.005, "validation_fraction": 0.0}
    assert pretrain(pretrain_options(tiny_corpus, tmp_path / "run", **changes))["metrics"] == {}


@pytest.mark.parametrize("name", ["cosine", "linear", "constant"])
def test_timed_schedules_warm_up_and_end(name: str) -> None:
    factors = [timed_schedule(name, 0.1, progress / 20) for progress in range(21)]
    assert factors[:3] == pytest.approx([0, 0.5, 1])
    assert factors[-1] == pytest.approx(1 if name == "constant" else 0)
    assert factors[2:] == sorted(factors[2:], reverse=True)


def test_gradients_that_are_not_numbers_do_not_reach_the_weights() -> None:
    """A loss that is finite, with gradients that are not: the square root of nothing has one."""
    trainer = StageTrainer.__new__(StageTrainer)
    trainer.accelerator, trainer.state = Accelerator(cpu=True), TrainerState(global_step=6)
    weight = torch.nn.Parameter(torch.ones(3))
    (weight - weight.detach()).pow(2).sum().sqrt().backward()
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    with pytest.raises(FloatingPointError, match="found a norm of nan at step 7; lower --learning_rate"):
        trainer._get_grad_norm(None, norm)


def test_not_a_number_is_one_line(tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretrain(pretrain_options(tiny_corpus, tmp_path / "base"))
    model = GreffeForCausalLM.from_pretrained(tmp_path / "base")
    with torch.no_grad():
        model.lm_head.bias[5] = float("nan")
    model.save_pretrained(tmp_path / "base")
    sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"))
    options = pretrain_options(tiny_corpus, tmp_path / "run", model=str(tmp_path / "base"), **sizes)
    capsys.readouterr()
    assert main(["pretrain", *flags_of(options)]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("greffe: ")]
    assert line.startswith("greffe: error: expected a finite loss, found nan at step 1, in a batch of 4 rows")
    assert not (tmp_path / "run").exists()


def test_tensorboard_logs(tiny_corpus: Path, tiny_base: Path, labelled: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    pretrain(
        pretrain_options(tiny_corpus, tmp_path / "one", tensorboard=True, max_steps=60, save_steps=60, eval_steps=30)
    )
    stage.finetune(finetune_options(tiny_base, labelled, tmp_path / "two", tensorboard=True))
    for folder, names, steps in (
        (tmp_path / "one", {"train/loss", "eval/loss", "eval/perplexity", "eval/bits_per_byte"}, [30, 60]),
        (tmp_path / "two", {"train/loss", "eval/loss", "eval/accuracy", "eval/macro_f1"}, [16, 32, 48]),
    ):
        logs = EventAccumulator(str(folder / "logs")).Reload()
        assert names <= set(logs.Tags()["scalars"])
        assert [event.step for event in logs.Scalars("eval/loss")] == steps
        logged = {entry["step"]: entry for entry in history(list_checkpoints(folder)[-1]) if "eval_loss" in entry}
        for event in logs.Scalars("eval/loss"):
            assert event.value == pytest.approx(logged[event.step]["eval_loss"])
