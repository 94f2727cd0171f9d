"""Learning: accumulation, label smoothing, checkpointing, compilation and Trainer give what they should."""

from pathlib import Path
from typing import Any

import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification
from tiny_models import random_ids, tiny_config
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments

HEADS: dict[str, tuple[type, dict[str, Any]]] = {
    "causal": (GreffeForCausalLM, {}),
    "masked": (GreffeForMaskedLM, {}),
    "single label": (GreffeForSequenceClassification, {"num_labels": 3}),
    "several labels": (
        GreffeForSequenceClassification,
        {"num_labels": 3, "problem_type": "multi_label_classification"},
    ),
    "regression": (GreffeForSequenceClassification, {"num_labels": 1}),
}


def build(head: str, kind: str = "lab", **overrides: Any) -> nn.Module:
    model_class, options = HEADS[head]
    torch.manual_seed(1)
    return model_class(tiny_config(kind, **options, **overrides))


def examples(head: str, count: int = 8) -> list[dict[str, Tensor]]:
    """Rows with different numbers of labelled tokens: an average of averages would differ."""
    rows = []
    for index in range(count):
        ids = random_ids(1, 10)[0]
        if head in ("causal", "masked"):
            labels = ids.clone()
            labels[: index + 1] = -100
        elif head == "single label":
            labels = torch.tensor(index % 3)
        elif head == "several labels":
            labels = torch.tensor([1.0, 0.0, float(index % 2)])
        else:
            labels = torch.tensor(float(index))
        rows.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
    return rows


def train(model: nn.Module, rows: list[dict[str, Tensor]], folder: Path, **arguments: Any) -> tuple[nn.Module, float]:
    """One step of plain gradient descent, so that weights show the gradients and not Adam's signs."""
    options = TrainingArguments(
        output_dir=folder, max_steps=1, learning_rate=0.1, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0,
        use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no", logging_steps=1,
        dataloader_pin_memory=False, **arguments,
    )  # fmt: skip
    trainer = Trainer(model, options, train_dataset=rows)
    trainer.train()
    return model, next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)


@pytest.mark.parametrize("head", HEADS)
def test_accumulation_gives_the_loss_and_gradients_of_the_whole_batch(head: str, tmp_path: Path) -> None:
    rows = examples(head)
    whole, whole_loss = train(build(head), rows, tmp_path, per_device_train_batch_size=8)
    parts, parts_loss = train(build(head), rows, tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4)
    assert parts_loss == pytest.approx(whole_loss, rel=1e-4)
    for (name, one), other in zip(whole.named_parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4, msg=name)


def test_the_first_position_of_a_shifted_model_is_not_predicted() -> None:
    """A row that starts inside a document may have a label there; what is read at that place comes from the last."""
    model = GreffeForMaskedLM(tiny_config(shifted_masks=True))
    ids = random_ids(2, 9)
    labels = ids.masked_fill(torch.rand(2, 9) < 0.5, -100)
    labels[:, 0] = ids[:, 0]
    without = labels.clone()
    without[:, 0] = -100
    for mode in (True, False):
        model.train(mode)
        torch.testing.assert_close(model(ids, labels=labels).loss, model(ids, labels=without).loss)
    hidden = model.model(ids).last_hidden_state
    expected = F.cross_entropy(model.lm_head(hidden)[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    torch.testing.assert_close(model(ids, labels=labels).loss, expected)


def test_trainer_does_not_count_what_a_shifted_model_does_not_predict(tmp_path: Path) -> None:
    model = build("masked", shifted_masks=True)
    rows = examples("causal")
    for row in rows:
        row["labels"] = row["input_ids"].clone()
    with torch.no_grad():
        expected = model.eval()(**{name: torch.stack([row[name] for row in rows]) for name in rows[0]}).loss
    _, loss = train(model, rows, tmp_path, per_device_train_batch_size=8)
    assert loss == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.parametrize("head", ["causal", "masked", "single label"])
def test_label_smoothing_through_trainer(head: str, tmp_path: Path) -> None:
    rows = examples(head)
    model = build(head)
    with torch.no_grad():
        logits = model.eval()(torch.stack([row["input_ids"] for row in rows])).logits
    labels = torch.stack([row["labels"] for row in rows])
    if head == "causal":
        logits, labels = logits[:, :-1], labels[:, 1:]
    expected = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), label_smoothing=0.2)
    _, loss = train(model, rows, tmp_path, per_device_train_batch_size=8, label_smoothing_factor=0.2)
    assert loss == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.parametrize("head", HEADS)
def test_every_parameter_moves(head: str, kind: str, tmp_path: Path) -> None:
    model = build(head, kind)
    before = {name: value.clone() for name, value in model.named_parameters()}
    train(model, examples(head), tmp_path, per_device_train_batch_size=8)
    still = [name for name, value in model.named_parameters() if torch.equal(value, before[name])]
    assert not still


@pytest.mark.parametrize("head", ["causal", "masked", "single label"])
def test_gradient_checkpointing_gives_the_same_gradients(head: str, kind: str) -> None:
    rows = examples(head)
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    def gradients(model: nn.Module) -> dict[str, Tensor]:
        torch.manual_seed(3)  # dropout draws the same masks
        model.train()(**batch).loss.backward()
        return {name: value.grad for name, value in model.named_parameters()}

    plain = gradients(build(head, kind, hidden_dropout=0.1))
    checkpointed = build(head, kind, hidden_dropout=0.1)
    checkpointed.gradient_checkpointing_enable()
    calls = []
    checkpointed.model.layers[0].self_attn.register_forward_hook(lambda *_: calls.append(1))
    for name, gradient in gradients(checkpointed).items():
        torch.testing.assert_close(gradient, plain[name], msg=name)
    assert len(calls) == 2, "the layer was not computed again in the backward pass"


@pytest.mark.parametrize("option", ["hidden_dropout", "attention_dropout", "classifier_dropout"])
def test_dropout_acts_in_training_only(option: str) -> None:
    model = build("single label", **{option: 0.5})
    ids = random_ids(2, 6)
    with torch.no_grad():
        assert not torch.equal(model.train()(ids).logits, model(ids).logits)
        assert torch.equal(model.eval()(ids).logits, model(ids).logits)


@pytest.mark.parametrize("head", ["causal", "single label"])
def test_compiled_forward_and_training_step(head: str, kind: str) -> None:
    """No graph breaks, and the losses and gradients of the plain model."""
    plain, compiled = build(head, kind), build(head, kind)
    rows = examples(head)
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    step = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    step.train(), plain.train()
    loss, expected = step(**batch).loss, plain(**batch).loss
    torch.testing.assert_close(loss, expected)
    loss.backward(), expected.backward()
    for (name, one), other in zip(compiled.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-4, msg=name)
    with torch.no_grad():
        step.eval(), plain.eval()
        inputs = {"input_ids": batch["input_ids"]}
        torch.testing.assert_close(step(**inputs).logits, plain(**inputs).logits)


def test_problem_type_follows_the_labels_and_is_remembered(tmp_path: Path) -> None:
    ids = random_ids(2, 5)
    for labels, expected in (
        (torch.tensor([0, 2]), "single_label_classification"),
        (torch.tensor([[1.0, 0, 1], [0, 1, 1]]), "multi_label_classification"),
    ):
        model = GreffeForSequenceClassification(tiny_config(num_labels=3))
        model(ids, labels=labels)
        assert model.config.problem_type == expected
    model = GreffeForSequenceClassification(tiny_config(num_labels=1))
    model(ids, labels=torch.tensor([0.5, 1.5]))
    assert model.config.problem_type == "regression"
