"""Stage one: what it learns from, what it leaves behind, and that nothing that stops it changes the result."""

import ast
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification
from greffe.tokenization import load_tokenizer
from greffe.train import stage_trainer
from greffe.train.checkpoints import list_checkpoints, remove_old_checkpoints
from greffe.train.cli import main
from greffe.train.pretrain import pretrain
from greffe.train.run_folder import total_pretraining
from invented_text import make_documents
from processes import flags_of, kill_again_and_again, run_two_processes
from safetensors.torch import load_file
from tiny_stages import assert_same_weights, use_cache
from tiny_stages import pretrain_options as options
from transformers import TrainerState


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(make_documents(400, seed=3)), encoding="utf-8")
    return path


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    use_cache(tmp_path_factory.mktemp("cache"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("objective", ["causal", "masked", "hybrid"])
def test_learns_and_leaves_a_whole_folder(objective: str, corpus: Path, tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    shared = {
        "objective": objective,
        "learning_rate": 1e-2,
        "hidden_dropout": 0.0,
        "eval_steps": 100,
        "save_steps": 100,
    }
    before = pretrain(options(corpus, few, max_steps=1, **shared))["metrics"]
    after = pretrain(options(corpus, many, max_steps=60, **shared))["metrics"]
    assert all(after[name] < before[name] for name in before)
    model_class = GreffeForMaskedLM if objective == "masked" else GreffeForCausalLM
    model = model_class.from_pretrained(many)
    assert len(load_tokenizer(many)) == model.config.vocab_size == 300
    assert model.config.use_cache is True
    record = json.loads((many / "greffe.json").read_text())
    assert record["arguments"]["objective"] == objective
    assert record["metrics"] == after
    assert set(record["versions"]) >= {"greffe", "torch", "transformers"}


def test_hybrid_model_serves_both_directions(tmp_path: Path) -> None:
    """One head: it writes as a causal model, and fills masks, one position further than a causal model would."""
    draw = random.Random(1)
    texts = ["".join(draw.sample("abcdefghij", 2)) * 6 for _ in range(600)]
    (tmp_path / "pairs.txt").write_text("\n".join(texts))
    folder = tmp_path / "hybrid"
    changes = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "eval_steps": 500, "save_steps": 500}
    changes |= {"tokenizer_vocab_size": 260, "max_steps": 200, "learning_rate": 1e-2, "objective": "hybrid"}
    pretrain(options(tmp_path / "pairs.txt", folder, **changes))
    tokenizer = load_tokenizer(folder)
    ids = torch.tensor([tokenizer(text)["input_ids"] for text in texts[:50]])
    hidden = ids.clone()
    hidden[:, 6] = tokenizer.mask_token_id

    def accuracy(model: Any) -> float:
        with torch.no_grad():
            return (model.eval()(hidden).logits[:, 6].argmax(-1) == ids[:, 6]).float().mean().item()

    assert accuracy(GreffeForMaskedLM.from_pretrained(folder)) > 0.9
    assert accuracy(GreffeForMaskedLM.from_pretrained(folder, shifted_masks=False)) < 0.5
    written = GreffeForCausalLM.from_pretrained(folder).generate(ids[:10, :5], max_new_tokens=4, do_sample=False)
    assert torch.equal(written, ids[:10, :9])
    for is_causal in (True, False):
        assert (
            GreffeForSequenceClassification.from_pretrained(folder, is_causal=is_causal).config.is_causal is is_causal
        )


def test_perplexity_does_not_depend_on_batches(corpus: Path, tmp_path: Path) -> None:
    results = [
        pretrain(options(corpus, tmp_path / str(size), max_steps=1, per_device_eval_batch_size=size))["metrics"]
        for size in (1, 7)
    ]
    assert results[0]["perplexity"] == pytest.approx(results[1]["perplexity"], rel=1e-5)


def test_validation_metrics_are_those_of_each_document_alone(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    metrics = pretrain(options(corpus, folder, max_steps=5, block_size=200))["metrics"]
    from greffe.tokenization import encode_documents
    from greffe.train.packing import is_validation

    model = GreffeForCausalLM.from_pretrained(folder).eval()
    texts = [text for text in corpus.read_text().splitlines() if is_validation(text, 0.1, 0)]
    nats = tokens = 0
    for ids in encode_documents(load_tokenizer(folder), texts):
        with torch.no_grad():
            nats += model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item() * (len(ids) - 1)
        tokens += len(ids) - 1
    assert metrics["loss"] == pytest.approx(nats / tokens, rel=1e-5)
    text_bytes = sum(len(text.encode()) for text in texts)
    assert metrics["bits_per_byte"] == pytest.approx(nats / np.log(2) / text_bytes, rel=1e-5)


def test_without_validation(corpus: Path, tmp_path: Path) -> None:
    assert pretrain(options(corpus, tmp_path / "run", validation_fraction=0.0))["metrics"] == {}
    assert GreffeForCausalLM.from_pretrained(tmp_path / "run").config.vocab_size == 300


def samples(said: str) -> list[tuple[int, str]]:
    """Each on a line of its own, above the bar."""
    return [(int(step), ast.literal_eval(text)) for step, text in re.findall(r"[\n\r]step (\d+) writes: (.*)\n", said)]


def test_a_sample_of_text_at_each_evaluation(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It starts with the prompt, is drawn alike each time, and disturbs no draw of the training."""
    often = options(corpus, tmp_path / "often", eval_steps=4, sample_prompt="Un jour", embeddings="random")
    pretrain(often)
    written = samples(capsys.readouterr().err)
    assert [step for step, _ in written] == [4, 8, 12]
    assert all(text.startswith("Un jour") and len(text) > len("Un jour") for _, text in written)
    pretrain(replace(often, output=str(tmp_path / "seldom"), eval_steps=12, sample_prompt=""))
    assert [step for step, _ in samples(capsys.readouterr().err)] == [12]
    assert_same_weights(tmp_path / "often", tmp_path / "seldom")
    pretrain(options(corpus, tmp_path / "masked", objective="masked"))
    assert samples(capsys.readouterr().err) == [], "a masked model does not write"


def test_the_bar_tells_tokens_a_second(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = []
    make = stage_trainer.Throughput
    monkeypatch.setattr(stage_trainer, "Throughput", lambda *options: bars.append(make(*options)) or bars[-1])
    pretrain(options(corpus, tmp_path / "run"))
    assert re.search(r"[\d,]+ tokens/s", capsys.readouterr().err)
    assert bars[0].per_step == 2 * 4 * 16, "of all rows of all batches of a step"
    clock = iter([100.0, 102.0, 108.0])
    monkeypatch.setattr(stage_trainer, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    bar, state = make("tokens", 1000), TrainerState(max_steps=9, global_step=5)
    bar.on_train_begin(None, state, None)
    for step, rate in ((6, "500 tokens/s"), (9, "500 tokens/s")):
        state.global_step = step
        bar.on_step_end(None, state, None)
        assert bar.training_bar.postfix == rate
    bar.on_train_end(None, state, None)


@pytest.mark.parametrize("native", [True, False])
def test_bf16_where_the_processor_has_it(
    native: bool, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage_trainer, "native_bf16", lambda: native)
    found = {
        choice: stage_trainer.common_training_arguments(options(corpus, tmp_path, bf16=choice), tmp_path)["bf16"]
        for choice in ("on", "off", "auto")
    }
    assert found == {"on": True, "off": False, "auto": native}
    line = "bf16 on: the processor has it" if native else "bf16 off: the processor does not have it natively"
    assert capsys.readouterr().err == f"{line}\n", "said where it was not asked for, once"


def test_continuing_a_model_on_another_corpus(corpus: Path, tmp_path: Path) -> None:
    first = pretrain(options(corpus, tmp_path / "first"))
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(json.dumps({"body": text}) for text in make_documents(200, seed=9)))
    sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"))
    arguments = options(other, tmp_path / "second", model=str(tmp_path / "first"), text_column="body", **sizes)
    record = pretrain(arguments)
    assert record["base_model"]["path"] == str(tmp_path / "first")
    assert len(record["base_model"]["sha256"]) == 64
    assert (tmp_path / "second" / "tokenizer.json").read_bytes() == (tmp_path / "first" / "tokenizer.json").read_bytes()
    third = pretrain(replace(arguments, model=str(tmp_path / "second"), output=str(tmp_path / "third")))
    for name in ("seconds", "steps", "tokens_seen"):  # what went into it is counted from the beginning
        parts = [made[name] for made in (first, record, third)]
        assert min(parts) > 0
        assert total_pretraining(tmp_path / "third")[name] == pytest.approx(sum(parts))


# Surviving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "bf16", "optimizer"), [("causal", "on", "adamw"), ("hybrid", "off", "muon")])
def test_killed_twenty_times_gives_the_same_weights(
    objective: str, bf16: str, optimizer: str, corpus: Path, tmp_path: Path
) -> None:
    """kill -9 during set-up, steps, evaluations and saves; dropout on, with accumulation."""
    changes = {"max_steps": 300, "save_steps": 2, "eval_steps": 25}
    changes |= {"objective": objective, "bf16": bf16, "optimizer": optimizer}
    pretrain(options(corpus, tmp_path / "whole", **changes))
    seen = kill_again_and_again("pretrain", options(corpus, tmp_path / "killed", **changes), tmp_path)
    assert len(set(seen)) > 3, "the kills all fell before the first checkpoint"
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


def test_resume_skips_damaged_checkpoints_and_says_so(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(options(corpus, tmp_path / "whole"))
    folder = tmp_path / "run"
    pretrain(options(corpus, folder))
    for name in ("greffe.json", "model.safetensors"):  # as if it had been stopped before its end
        (folder / name).unlink()
    newest = folder / "checkpoint-12" / "optimizer.pt"
    newest.write_bytes(newest.read_bytes()[:-10])
    capsys.readouterr()
    pretrain(options(corpus, folder, resume=True))
    said = capsys.readouterr().err
    assert "checkpoint-12 was skipped: optimizer.pt has" in said
    assert "continuing from checkpoint-9" in said
    assert_same_weights(tmp_path / "whole", folder)


def test_a_damaged_checkpoint_does_not_take_the_place_of_new_ones(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of a later step than those that are written now: each of them would be removed as older at once."""
    folder = tmp_path / "run"
    pretrain(options(corpus, folder, save_total_limit=1))
    (folder / "greffe.json").unlink()
    (folder / "checkpoint-12" / "optimizer.pt").unlink()
    kept = []

    def remove(run_folder: Path, keep: int) -> None:
        remove_old_checkpoints(run_folder, keep)
        kept.append([path.name for path in list_checkpoints(run_folder)])

    monkeypatch.setattr(stage_trainer, "remove_old_checkpoints", remove)
    pretrain(options(corpus, folder, save_total_limit=1, resume=True))
    assert kept == [["checkpoint-3"], ["checkpoint-6"], ["checkpoint-9"], ["checkpoint-12"]]


def test_resume_without_a_checkpoint_starts_anew(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(options(corpus, tmp_path / "run", resume=True))
    assert "no complete checkpoint found: starting anew" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_and_say_so(number: signal.Signals, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = flags_of(options(corpus, folder, max_steps=100_000))
    command = [sys.executable, "-m", "greffe.train.pretrain", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    wait_for(lambda: (folder / "checkpoint-3").exists(), process)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name} after step" in said
    assert "Traceback" not in said
    step = int(said.split("after step ")[1].split(";")[0])
    assert (folder / f"checkpoint-{step}" / "manifest.json").exists()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: int = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_processes_give_what_one_gives(corpus: Path, tmp_path: Path) -> None:
    changes = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "gradient_accumulation_steps": 1}
    record = pretrain(options(corpus, tmp_path / "one", per_device_train_batch_size=8, **changes))
    run_two_processes("pretrain", options(corpus, tmp_path / "two", per_device_train_batch_size=4, **changes), tmp_path)
    both = json.loads((tmp_path / "two" / "greffe.json").read_text())
    assert both["metrics"]["loss"] == pytest.approx(record["metrics"]["loss"], rel=1e-5)
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], value, atol=2e-5, rtol=1e-4, msg=name)


def test_not_a_number_stops_the_run(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    pretrain(options(corpus, broken))
    model = GreffeForCausalLM.from_pretrained(broken)
    with torch.no_grad():
        model.lm_head.bias[5] = float("nan")
    model.save_pretrained(broken)
    sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"))
    with pytest.raises(FloatingPointError, match="found nan at step 1, in a batch of 4 rows"):
        pretrain(options(corpus, tmp_path / "run", model=str(broken), **sizes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": ["nowhere.txt"]}, "nowhere.txt"),
        ({"tokenizer": "nowhere"}, "nowhere"),
        ({"block_size": 1}, "expected --block_size above 1, found 1"),
        ({"mask_probability": 1.5}, "expected --mask_probability in [0, 1), found 1.5"),
        ({"preset": "smal"}, "expected a preset among"),
        ({"num_attention_heads": 3}, "num_attention_heads=3"),
        ({"hidden_dropout": 1.0}, "expected hidden_dropout in [0, 1), found 1.0"),
        ({"tokenizer": "x", "tokenizer_lowercase": True}, "expected --tokenizer or --tokenizer_lowercase, found both"),
        ({"model": "base", "tokenizer_lowercase": True}, "expected --model or --tokenizer_lowercase, found both"),
        ({"model": "base"}, "expected --model or sizes, found --model base with ['hidden_size'"),
        ({"objective": "masked", "mask_probability": 0.0}, "--mask_probability above 0 with --objective masked"),
        ({"objective": "hybrid", "mask_probability": 0.0}, "--mask_probability above 0 with --objective hybrid"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    changes: dict[str, Any], message: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pretrain", *flags_of(replace(options(corpus, tmp_path / "run"), **changes))]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("greffe: error: expected")
    assert message in line
    assert not (tmp_path / "run").exists()


def test_rows_that_are_longer_than_the_corpus(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", *flags_of(options(corpus, tmp_path / "run", block_size=10**6))]) == 1
    assert "greffe: error: expected at least one row of block_size=1000000" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_folders_that_are_taken(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    pretrain(options(corpus, folder))
    with pytest.raises(FileExistsError, match="found a finished model"):
        pretrain(options(corpus, folder))
    (folder / "greffe.json").unlink()
    with pytest.raises(FileExistsError, match="pass --resume"):
        pretrain(options(corpus, folder))
    with pytest.raises(ValueError, match=r"learning_rate=0.001 before, 0.5 now"):
        pretrain(options(corpus, folder, resume=True, learning_rate=0.5))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(FileExistsError, match=r"found \['thesis.doc'\]"):
        pretrain(options(corpus, tmp_path / "full"))


def test_a_folder_in_use_is_refused(corpus: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    holder = (
        "import sys, time; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print(1, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", holder, tmp_path / "run" / ".lock"], stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        with pytest.raises(OSError, match="in use by another run"):
            pretrain(options(corpus, tmp_path / "run"))
    finally:
        process.kill()
    assert FileLock(tmp_path / "run" / ".lock").acquire(timeout=5)
