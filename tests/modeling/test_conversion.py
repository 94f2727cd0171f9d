"""The experiment's checkpoints, rebuilt from `torch.nn.TransformerEncoder`, and what is refused."""

import os
from pathlib import Path

import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForSequenceClassification, GreffeModel
from greffe.modeling.conversion import read_checkpoint
from reference_experiment import ReferenceModel
from tiny_models import random_ids
from torch import Tensor


def save(state: object, folder: Path) -> Path:
    torch.save(state, folder / "checkpoint.pt")
    return folder / "checkpoint.pt"


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(("outputs", "expected"), [(97, GreffeForCausalLM), (5, GreffeForSequenceClassification)])
def test_whole_model(outputs: int, expected: type, wrapped: bool, tmp_path: Path) -> None:
    reference = ReferenceModel(outputs=outputs, feed_forward=40, layers=3, heads=4)
    state = reference.state_dict()
    model = read_checkpoint(save({"model_state_dict": state} if wrapped else state, tmp_path), num_attention_heads=4)
    assert type(model) is expected
    config = model.config
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (97, 32, 40)
    assert (config.num_hidden_layers, config.num_attention_heads) == (3, 4)
    ids = random_ids(2, 9)
    with torch.no_grad():
        logits = model.eval()(ids).logits
    expected_logits = reference.logits(ids)
    if expected is GreffeForSequenceClassification:
        expected_logits = expected_logits[:, -1]
    torch.testing.assert_close(logits, expected_logits, atol=1e-5, rtol=0)


def test_base_alone(tmp_path: Path) -> None:
    reference = ReferenceModel()
    model = read_checkpoint(save(reference.base.state_dict(), tmp_path))
    assert type(model) is GreffeModel
    ids = random_ids(2, 9)
    with torch.no_grad():
        expected = reference.eval().base(ids.t()).transpose(0, 1)
        torch.testing.assert_close(model.eval()(ids).last_hidden_state, expected, atol=1e-5, rtol=0)


class RunsCode:
    def __reduce__(self) -> tuple:
        return os.mkdir, (os.environ["GREFFE_TEST_TRAP"],)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "trap"
    monkeypatch.setenv("GREFFE_TEST_TRAP", str(trap))
    path = save({"model_state_dict": ReferenceModel().state_dict(), "extra": RunsCode()}, tmp_path)
    with pytest.raises(ValueError, match="can run code"):
        read_checkpoint(path)
    assert not trap.exists()
    torch.load(path, weights_only=False)
    assert trap.exists(), "the trap itself does not work"


def _drop(state: dict[str, Tensor], name: str) -> None:
    del state[name]


def _cut(state: dict[str, Tensor], name: str) -> None:
    state[name] = state[name][:-1]


LAYER = "base.transformer_encoder.layers.1"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: _drop(s, "base.encoder.weight"), "expected the embedding"),
        (
            lambda s: _drop(s, f"{LAYER}.linear1.bias"),
            r"model.layers.1.mlp.up_proj.bias: expected \(32,\), found none",
        ),
        (
            lambda s: _cut(s, f"{LAYER}.self_attn.in_proj_weight"),
            r"model.layers.1.self_attn.qkv_proj.weight: expected \(96, 32\), found \(95, 32\)",
        ),
        (lambda s: _drop(s, "classifier.decoder.bias"), r"lm_head.bias: expected \(97,\), found none"),
        (
            lambda s: s.update({"base.transformer_encoder.norm.weight": torch.ones(32)}),
            "transformer_encoder.norm.weight",
        ),
        (lambda s: s["base.pos_encoder.pe"].add_(1), "expected the sinusoids"),
    ],
)
def test_weights_that_do_not_form_a_model_are_refused(damage, message: str, tmp_path: Path) -> None:
    state = ReferenceModel().state_dict()
    damage(state)
    with pytest.raises(ValueError, match=message) as refusal:
        read_checkpoint(save(state, tmp_path))
    assert "checkpoint.pt" in str(refusal.value)


def test_number_of_heads_must_divide_the_width(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"checkpoint\.pt.*num_attention_heads=3"):
        read_checkpoint(save(ReferenceModel().state_dict(), tmp_path), num_attention_heads=3)


@pytest.mark.parametrize("content", [[1, 2], {"model_state_dict": {"a": 1}}, {"optimizer": {}}])
def test_files_without_a_state_dict_are_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a state dict"):
        read_checkpoint(save(content, tmp_path))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    path = save(ReferenceModel().state_dict(), tmp_path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="damaged"):
        read_checkpoint(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="damaged"):
        read_checkpoint(path)
    with pytest.raises(FileNotFoundError, match="nothing at"):
        read_checkpoint(tmp_path / "nowhere.pt")
    with pytest.raises(IsADirectoryError, match="found a folder"):
        read_checkpoint(tmp_path)
