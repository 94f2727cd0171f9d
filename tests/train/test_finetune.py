"""Stage two: what is grafted, what learns, what is kept, and that nothing that stops it changes the result."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification
from greffe.modeling.modeling_greffe import GreffeModel
from greffe.tokenization import load_tokenizer
from greffe.train.arguments import FinetuneArguments
from greffe.train.cli import main
from greffe.train.finetune import balanced_weights, finetune, make_trainer, prepare_model, read_parts
from greffe.train.finetune_trainer import depth_of
from greffe.train.frozen_trunk import says_the_same
from greffe.train.run_folder import describe_base
from greffe.train.stage_trainer import EpochSampler
from invented_text import make_documents
from processes import flags_of, kill_again_and_again, run_two_processes
from safetensors.torch import load_file
from tiny_reviews import make_base, make_reviews, write_rows
from torch.nn import functional as F
from transformers import pipeline


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("reviews") / "reviews.jsonl", make_reviews(240, seed=1))


def options(base: Path, reviews: Path, output: Path, **changes: Any) -> FinetuneArguments:
    values: dict[str, Any] = {
        "model": str(base), "train": str(reviews), "output": str(output), "num_train_epochs": 2.0, "max_length": 32,
        "per_device_train_batch_size": 8, "learning_rate": 1e-2, "validation_fraction": 0.2, "bf16": "off",
    }  # fmt: skip
    return FinetuneArguments(**{**values, **changes})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_learns_words_as_labels(base: Path, reviews: Path, tmp_path: Path) -> None:
    test = write_rows(tmp_path / "test.jsonl", make_reviews(100, seed=2))
    changes = {"num_train_epochs": 12, "learning_rate": 3e-3, "weight_decay": 0.1}
    record = finetune(options(base, reviews, tmp_path / "run", test=str(test), **changes))
    assert record["metrics"]["test"]["accuracy"] > 0.85
    assert record["labels"] == ["négatif", "positif"]
    assert {"accuracy", "macro_f1"} <= set(record["metrics"]["validation"])
    classifier = pipeline("text-classification", model=str(tmp_path / "run"))
    right = [classifier(row["text"])[0]["label"] == row["label"] for row in make_reviews(20, seed=3)]
    assert sum(right) >= 15
    saved = json.loads((tmp_path / "run" / "greffe.json").read_text())
    assert saved["metrics"] == record["metrics"]
    assert saved["base_model"]["path"] == str(base)
    assert [path.name for path in (tmp_path / "run").glob("*.safetensors")] == ["model.safetensors"]


def test_a_model_of_the_local_hub(base: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from greffe.hub import LocalHub

    monkeypatch.setenv("GREFFE_HUB", str(tmp_path / "hub"))
    LocalHub().push(base, "lab/base", tag="v1")
    arguments = replace(options(base, reviews, tmp_path / "run", num_train_epochs=1), model="lab/base@v1")
    assert finetune(arguments)["base_model"]["sha256"] == describe_base(base)["sha256"]
    LocalHub().push(tmp_path / "run", "lab/classifier")
    assert "accuracy" in (LocalHub().snapshot("lab/classifier") / "README.md").read_text()


def test_the_best_epoch_is_kept(base: Path, reviews: Path, tmp_path: Path) -> None:
    # A rate that is far too high: epochs go up and down.
    record = finetune(options(base, reviews, tmp_path / "run", num_train_epochs=5, learning_rate=0.3))
    by_epoch = [entry["eval_accuracy"] for entry in record["epochs"]]
    assert len(by_epoch) == 5
    assert len(set(by_epoch)) > 1
    assert record["metrics"]["validation"]["accuracy"] == max(by_epoch)


@pytest.mark.parametrize(
    ("make_label", "expected"),
    [
        (lambda index: ["rouge", "vert", "bleu"][index % 3], "accuracy"),
        (lambda index: ["drame"] * (index % 2) + ["humour"] * (index % 3 == 0), "micro_f1"),
        (lambda index: index / 7, "mse"),
    ],
)
def test_other_tasks(make_label: Any, expected: str, base: Path, tmp_path: Path) -> None:
    texts = make_documents(60, seed=4)
    data = write_rows(tmp_path / "rows.jsonl", [{"text": t, "label": make_label(i)} for i, t in enumerate(texts)])
    record = finetune(options(base, data, tmp_path / "run", learning_rate=1e-3))
    assert expected in record["metrics"]["validation"]
    model = GreffeForSequenceClassification.from_pretrained(tmp_path / "run")
    assert list(model.config.id2label.values()) == record["labels"]


def test_the_trunk_is_the_models_or_new(base: Path, reviews: Path, tmp_path: Path) -> None:
    arguments = options(base, reviews, tmp_path / "run")
    labels = read_parts(arguments).labels
    saved = GreffeForCausalLM.from_pretrained(base).model.state_dict()
    grafted = prepare_model(arguments, labels).model.state_dict()
    assert all(torch.equal(grafted[name], value) for name, value in saved.items())
    scratch = prepare_model(replace(arguments, from_scratch=True), labels).model.state_dict()
    assert [name for name, value in saved.items() if value.ndim > 1 and torch.equal(scratch[name], value)] == []


@pytest.mark.parametrize(("attention", "is_causal"), [("model", True), ("causal", True), ("bidirectional", False)])
def test_attention_and_pooling(attention: str, is_causal: bool, base: Path, reviews: Path, tmp_path: Path) -> None:
    arguments = options(base, reviews, tmp_path / "run", attention=attention, pooling="last", classifier_dropout=0.25)
    config = prepare_model(arguments, read_parts(arguments).labels).config
    assert (config.is_causal, config.classifier_pooling, config.classifier_dropout) == (is_causal, "last", 0.25)


def test_frozen_trunk_does_not_move(base: Path, reviews: Path, tmp_path: Path) -> None:
    finetune(options(base, reviews, tmp_path / "run", freeze="trunk"))
    before, after = weights(base), weights(tmp_path / "run")
    assert all(torch.equal(after[name], before[name]) for name in after if name.startswith("model."))
    assert after["score.bias"].any()


def test_a_frozen_trunk_reads_each_text_once_to_the_same_result(
    base: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    forward = GreffeModel.forward
    monkeypatch.setattr(GreffeModel, "forward", lambda *args, **kw: asked.append(1) or forward(*args, **kw))
    choices = {"freeze": "trunk", "class_weights": True, "gradient_accumulation_steps": 2, "learning_rate": 1e-2}
    once = finetune(options(base, reviews, tmp_path / "once", **choices))
    few = len(asked)
    monkeypatch.setattr("greffe.train.finetune.says_the_same", lambda model: False)
    again = finetune(options(base, reviews, tmp_path / "again", **choices))
    assert few < len(asked) - few
    assert once["best_step"] == again["best_step"]
    for name, value in weights(tmp_path / "again").items():
        torch.testing.assert_close(weights(tmp_path / "once")[name], value, rtol=1e-4, atol=1e-5)


def test_dropout_in_a_frozen_trunk_is_drawn_at_each_epoch(base: Path, reviews: Path, tmp_path: Path) -> None:
    arguments = options(base, reviews, tmp_path / "run", freeze="trunk")
    labels = read_parts(arguments).labels
    assert says_the_same(prepare_model(arguments, labels))
    assert not says_the_same(prepare_model(replace(arguments, hidden_dropout=0.1), labels))
    assert not says_the_same(prepare_model(replace(arguments, freeze="none"), labels))


def test_gradual_unfreezing_goes_down_a_layer_an_epoch(base: Path, reviews: Path, tmp_path: Path) -> None:
    before = weights(base)
    for epochs, moved in ((1, {0}), (2, {0, 1}), (4, {0, 1, 2, 3})):
        folder = tmp_path / str(epochs)
        # the last epoch is kept: its metric is the best or equal only by chance, so look at the checkpoint
        finetune(options(base, reviews, folder, num_train_epochs=epochs, gradual_unfreezing=True))
        last = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))[-1]
        after = load_file(last / "model.safetensors")
        depths = {depth_of(n, 2) for n in after if n.startswith("score") or not torch.equal(after[n], before[n])}
        assert depths == moved


def test_learning_rates_by_layer(base: Path, reviews: Path, tmp_path: Path) -> None:
    finetune(options(base, reviews, tmp_path / "run", layerwise_lr_decay=0.5, lr_scheduler_type="constant"))
    last = sorted((tmp_path / "run").glob("checkpoint-*"))[-1]
    groups = torch.load(last / "optimizer.pt", weights_only=True)["param_groups"]
    assert {round(group["lr"] / 1e-2, 6) for group in groups} == {1.0, 0.5, 0.25, 0.125}
    assert {group["weight_decay"] for group in groups} == {0.0, 0.01}


def test_language_modelling_loss_leaves_no_head_behind(base: Path, reviews: Path, tmp_path: Path) -> None:
    losses = {}
    for weight in (0.0, 1.0):
        folder = tmp_path / str(weight)
        finetune(options(base, reviews, folder, lm_loss_weight=weight, learning_rate=1e-3))
        history = json.loads((sorted(folder.glob("checkpoint-*"))[-1] / "trainer_state.json").read_text())[
            "log_history"
        ]
        losses[weight] = next(entry["loss"] for entry in history if "loss" in entry)
        assert not [name for name in weights(folder) if name.startswith("lm_head")]
    assert losses[1.0] == pytest.approx(losses[0.0] + 6, abs=1.5)  # log(400) is 6: it has learned nothing


def first_loss(folder: Path) -> float:
    state = json.loads((sorted(folder.glob("checkpoint-*"))[-1] / "trainer_state.json").read_text())
    return next(entry["loss"] for entry in state["log_history"] if "loss" in entry)


def test_the_weight_of_the_language_model_does_not_depend_on_the_number_of_labels(base: Path, tmp_path: Path) -> None:
    texts = make_documents(60, seed=4)
    rows = [{"text": text, "label": ["rouge", "vert", "bleu"][: i % 4]} for i, text in enumerate(texts)]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    losses = {}
    for weight in (0.0, 1.0):
        finetune(options(base, data, tmp_path / str(weight), lm_loss_weight=weight, learning_rate=1e-4))
        losses[weight] = first_loss(tmp_path / str(weight))
    assert losses[1.0] == pytest.approx(losses[0.0] + 6, abs=1.0)


def test_labels_are_smoothed_beside_a_language_model(base: Path, reviews: Path, tmp_path: Path) -> None:
    """A weight that is next to nothing: the loss is that of the smoothed labels alone."""
    losses = {}
    for weight in (0.0, 1e-9):
        changes = {"lm_loss_weight": weight, "label_smoothing_factor": 0.4, "learning_rate": 1e-3}
        finetune(options(base, reviews, tmp_path / str(weight), **changes))
        losses[weight] = first_loss(tmp_path / str(weight))
    assert losses[1e-9] == pytest.approx(losses[0.0], abs=1e-4)
    finetune(options(base, reviews, tmp_path / "plain", learning_rate=1e-3))
    assert first_loss(tmp_path / "plain") != pytest.approx(losses[0.0], abs=1e-2)


def test_the_language_model_of_a_new_trunk_is_new(base: Path, reviews: Path, tmp_path: Path) -> None:
    arguments = options(base, reviews, tmp_path / "run", lm_loss_weight=0.5)
    labels = read_parts(arguments).labels
    saved = GreffeForCausalLM.from_pretrained(base).lm_head.weight
    assert torch.equal(prepare_model(arguments, labels).lm_head.weight, saved)
    scratch = prepare_model(replace(arguments, from_scratch=True), labels).lm_head.weight
    assert scratch.shape == saved.shape
    assert not torch.isclose(scratch, saved).any(dim=1).all()


def test_a_model_that_sees_both_sides_has_no_next_token(
    base: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    masked = tmp_path / "masked"
    load_tokenizer(base).save_pretrained(masked)
    GreffeForMaskedLM.from_pretrained(base).save_pretrained(masked)
    arguments = options(masked, reviews, tmp_path / "run", lm_loss_weight=0.5, num_train_epochs=1)
    assert main(["finetune", *flags_of(arguments)]) == 1
    assert "expected causal attention with --lm_loss_weight, found --attention model" in capsys.readouterr().err
    finetune(replace(arguments, attention="causal"))


@pytest.mark.parametrize("change", [{"label_smoothing_factor": 0.1}, {"class_weights": True}])
@pytest.mark.parametrize(("label", "task"), [([0.5, 1.5], "regression"), ([["a"], ["a", "b"]], "multi_label")])
def test_options_for_single_labels(
    change: dict[str, Any], label: list[Any], task: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": text, "label": label[i % 2]} for i, text in enumerate(make_documents(40, seed=4))]
    arguments = options(base, write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "run", **change)
    assert main(["finetune", *flags_of(arguments)]) == 1
    (name,) = change
    assert f"expected --{name} with single labels only, found {task}; leave it out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_batches_are_made_of_texts_of_similar_lengths(base: Path, reviews: Path, tmp_path: Path) -> None:
    """So that padding is not what the time goes to: far less of it than in batches by chance."""
    arguments = options(base, reviews, tmp_path / "run")
    labels, tokenizer = read_parts(arguments).labels, load_tokenizer(base)
    lengths = torch.randint(2, 200, (400,), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [{"input_ids": [5] * length, "labels": 0, "length": length} for length in lengths]
    model = prepare_model(arguments, labels)
    trainer = make_trainer(arguments, model, tokenizer, {"train": rows, "validation": rows[:4]}, labels, tmp_path)
    batches = [batch["attention_mask"] for batch in trainer.get_train_dataloader()]
    assert sorted(length for batch in batches for length in batch.sum(1).tolist()) == sorted(lengths)
    by_chance = list(EpochSampler(400, 8, seed=0))
    groups = [[lengths[row] for row in by_chance[start : start + 8]] for start in range(0, 400, 8)]
    padding = sum(int((batch == 0).sum()) for batch in batches)
    assert padding < 0.3 * sum(max(group) * 8 - sum(group) for group in groups)


def test_class_weights_make_classes_equal(base: Path, tmp_path: Path) -> None:
    rows = make_reviews(300, seed=6)
    rows = [row for index, row in enumerate(rows) if row["label"] == "positif" or index % 5 == 0]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    arguments = options(base, data, tmp_path / "run")
    parts = read_parts(arguments)
    rows = [{"labels": parts.labels.label2id[name]} for name in parts.parts["train"].labels]
    weight = balanced_weights(rows, parts.labels)
    counts = torch.tensor([parts.parts["train"].labels.count(name) for name in parts.labels.names])
    torch.testing.assert_close(weight * counts, torch.full((2,), counts.sum() / 2))
    history = {}
    for size, steps in ((8, 1), (2, 4)):
        folder = tmp_path / f"{size}"
        changes = {"class_weights": True, "num_train_epochs": 1, "per_device_train_batch_size": size}
        finetune(options(base, data, folder, gradient_accumulation_steps=steps, **changes))
        history[size] = load_file(sorted(folder.glob("checkpoint-*"))[-1] / "model.safetensors")
    for name, value in history[8].items():
        torch.testing.assert_close(history[2][name], value, atol=2e-4, rtol=1e-2, msg=name)


def test_overlap_is_found_and_removed_on_request(
    base: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in reviews.read_text().splitlines()]
    test = write_rows(tmp_path / "test.jsonl", rows[:30] + make_reviews(30, seed=8))
    arguments = options(base, reviews, tmp_path / "run", test=str(test), num_train_epochs=1)
    kept = len(read_parts(arguments).parts["train"])
    removed = len(read_parts(replace(arguments, deduplicate=True)).parts["train"])
    in_train = {row["text"] for row in rows[:30]} & set(read_parts(arguments).parts["train"].texts)
    assert kept - removed >= len(in_train) > 10
    assert "training texts removed that stand in validation or test" in capsys.readouterr().err
    record = finetune(arguments)
    assert record["data"]["leaks"]


def test_long_texts_are_counted(base: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finetune(options(base, reviews, tmp_path / "run", max_length=8, truncation="tail", num_train_epochs=1))
    said = capsys.readouterr().err
    assert "train texts cut to 8 tokens (tail)" in said


def test_pretokenised_files(base: Path, tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("\n".join(f"mot{i} 1" for i in range(90)))
    lines = [f"mot{i % 90} mot{(i * 7) % 90} " + ("mot1" if i % 2 else "mot2") for i in range(60)]
    (tmp_path / "train.review.spm").write_text("\n".join(lines))
    (tmp_path / "train.label").write_text("\n".join(str(i % 2) for i in range(60)))
    record = finetune(options(base, tmp_path / "train.review.spm", tmp_path / "run", num_train_epochs=1))
    assert record["labels"] == ["0", "1"]


# Surviving -----------------------------------------------------------------------------------------------------------


def test_killed_twenty_times_gives_the_same_weights(base: Path, reviews: Path, tmp_path: Path) -> None:
    changes = {
        "hidden_dropout": 0.1, "attention_dropout": 0.1, "classifier_dropout": 0.1, "gradient_accumulation_steps": 2,
        "num_train_epochs": 12, "save_steps": 3, "per_device_train_batch_size": 4, "lm_loss_weight": 0.2,
    }  # fmt: skip
    finetune(options(base, reviews, tmp_path / "whole", **changes))
    seen = kill_again_and_again("finetune", options(base, reviews, tmp_path / "killed", **changes), tmp_path)
    assert len(set(seen)) > 3, "the kills all fell before the first checkpoint"
    expected = weights(tmp_path / "whole")
    for name, value in weights(tmp_path / "killed").items():
        assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("freeze", ["none", "trunk"])
def test_two_processes_give_what_one_gives(freeze: str, base: Path, reviews: Path, tmp_path: Path) -> None:
    # Small steps: differences of rounding do not grow.
    changes = {"learning_rate": 1e-3, "num_train_epochs": 1, "freeze": freeze}
    record = finetune(options(base, reviews, tmp_path / "one", per_device_train_batch_size=8, **changes))
    two = options(base, reviews, tmp_path / "two", per_device_train_batch_size=4, **changes)
    run_two_processes("finetune", two, tmp_path)
    both = json.loads((tmp_path / "two" / "greffe.json").read_text())
    assert both["metrics"]["validation"]["loss"] == pytest.approx(record["metrics"]["validation"]["loss"], rel=1e-4)
    for name, value in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], value, atol=2e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "nowhere"}, "expected a model folder with a config.json in nowhere"),
        ({"train": "nowhere.csv"}, "nowhere.csv"),
        ({"text_column": "body"}, "body"),
        ({"layerwise_lr_decay": 2.0}, "expected --layerwise_lr_decay in (0, 1], found 2.0"),
        ({"freeze": "trunk", "gradual_unfreezing": True}, "expected one of --freeze trunk and --gradual_unfreezing"),
        ({"lm_loss_weight": 1.0, "attention": "bidirectional"}, "where the next token is in sight"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    changes: dict[str, Any], message: str, base: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finetune", *flags_of(replace(options(base, reviews, tmp_path / "run"), **changes))]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert line.startswith("greffe: error: expected")
    assert message in line
    assert not (tmp_path / "run").exists()


def test_damaged_weights_are_refused(base: Path, reviews: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(base, broken)
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert main(["finetune", *flags_of(options(broken, reviews, tmp_path / "run"))]) == 1
    assert not (tmp_path / "run").exists()


def test_weighted_loss_is_torchs(base: Path) -> None:
    from greffe.train.finetune_trainer import FinetuneTrainer

    logits, labels, weight = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([0.5, 1.0, 2.0])
    trainer = FinetuneTrainer.__new__(FinetuneTrainer)
    trainer.arguments = FinetuneArguments(model="", train="", output="")
    expected = F.cross_entropy(logits, labels, weight=weight, reduction="sum") / 6
    torch.testing.assert_close(trainer._weighted_loss(weight, logits, labels, 6), expected)
