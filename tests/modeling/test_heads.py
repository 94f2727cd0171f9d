"""Grafting: every change of head through `from_pretrained` keeps the trunk and draws the new head alone."""

import json
import logging
from pathlib import Path

import pytest
import torch
from greffe.modeling import (
    GreffeForCausalLM,
    GreffeForMaskedLM,
    GreffeForSequenceClassification,
    GreffeModel,
    GreffePreTrainedModel,
)
from tiny_models import tiny_config
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

CLASSES = [GreffeModel, GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification]
LANGUAGE_MODELS = (GreffeForCausalLM, GreffeForMaskedLM)


def trunk(model: GreffePreTrainedModel) -> dict[str, torch.Tensor]:
    return dict(model.base_model.named_parameters())


def assert_same_trunk(one: GreffePreTrainedModel, other: GreffePreTrainedModel) -> None:
    assert trunk(one).keys() == trunk(other).keys()
    for name, weight in trunk(one).items():
        assert torch.equal(weight, trunk(other)[name]), name


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="transformers")
    return caplog


@pytest.mark.parametrize("target", CLASSES)
@pytest.mark.parametrize("source", CLASSES)
def test_every_change_of_head(source: type, target: type, kind: str, tmp_path: Path) -> None:
    saved = source(tiny_config(kind))
    for parameter in saved.parameters():
        torch.nn.init.normal_(parameter)  # nothing that a fresh draw could give by chance
    saved.save_pretrained(tmp_path)

    torch.manual_seed(5)
    grafted, info = target.from_pretrained(tmp_path, output_loading_info=True)
    assert type(grafted) is target
    assert_same_trunk(grafted, saved)
    taken = source is target or {source, target} <= set(LANGUAGE_MODELS)
    if taken:
        assert not info["missing_keys"]
        assert all(torch.equal(value, saved.state_dict()[name]) for name, value in grafted.state_dict().items())
    else:
        head = {name for name, _ in grafted.named_parameters() if not name.startswith("model.")}
        assert info["missing_keys"] == (set() if target is GreffeModel else head)

    torch.manual_seed(5)
    again = target.from_pretrained(tmp_path)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in grafted.state_dict().items())
    torch.manual_seed(6)
    other = target.from_pretrained(tmp_path)
    drawn = [n for n, v in grafted.state_dict().items() if not torch.equal(v, other.state_dict()[n])]
    if taken or target is GreffeModel:
        assert drawn == []
    elif target is GreffeForSequenceClassification:
        assert drawn == ["score.weight"]  # its bias is always zero
    else:
        assert drawn == ([] if kind == "modern" else ["lm_head.weight"])  # the modern head is the embedding's


def test_new_head_is_drawn_in_its_range(causal_folder: Path) -> None:
    head = GreffeForSequenceClassification.from_pretrained(causal_folder, num_labels=50).score
    assert 0.095 < head.weight.abs().max() <= 0.1
    assert not head.bias.any()


def test_report_says_in_plain_words_what_is_new(tmp_path: Path, report: pytest.LogCaptureFixture) -> None:
    GreffeForCausalLM(tiny_config()).save_pretrained(tmp_path)
    GreffeForSequenceClassification.from_pretrained(tmp_path, num_labels=2)
    assert [record.getMessage() for record in report.records] == [
        f"GreffeForSequenceClassification from {tmp_path}: 16,032 parameters were taken. New, drawn at random and to "
        "be trained before use: score (66 parameters). Left behind, as this model has no place for it: lm_head."
    ]


def test_plain_load_reports_nothing(causal_folder: Path, report: pytest.LogCaptureFixture) -> None:
    GreffeForCausalLM.from_pretrained(causal_folder)
    GreffeForMaskedLM.from_pretrained(causal_folder)
    assert not report.records


def test_report_names_missing_parts_of_the_trunk(tmp_path: Path, report: pytest.LogCaptureFixture) -> None:
    model = GreffeForCausalLM(tiny_config(num_hidden_layers=1))
    model.save_pretrained(tmp_path)
    GreffeForCausalLM.from_pretrained(tmp_path, num_hidden_layers=2)
    assert "model.layers.1.mlp.up_proj.weight" in report.text


def test_another_number_of_labels(tmp_path: Path, kind: str, report: pytest.LogCaptureFixture) -> None:
    saved = GreffeForSequenceClassification(tiny_config(kind, num_labels=2))
    saved.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError) as refusal:
        GreffeForSequenceClassification.from_pretrained(tmp_path, num_labels=5)
    assert "expected score.weight of shape (5, 32), found (2, 32)" in str(refusal.value)
    assert "ignore_mismatched_sizes=True" in str(refusal.value)
    grafted = GreffeForSequenceClassification.from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    assert_same_trunk(grafted, saved)
    assert grafted.score.weight.shape == (5, 32)
    assert grafted.config.num_labels == 5
    assert "expected score.weight of shape (5, 32), found (2, 32)" in report.text


def test_label_names_survive(causal_folder: Path, tmp_path: Path) -> None:
    names = {0: "négatif", 1: "positif", 2: "mixte"}
    model = GreffeForSequenceClassification.from_pretrained(causal_folder, id2label=names)
    assert model.score.out_features == 3
    model.save_pretrained(tmp_path / "classifier")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "classifier")
    assert loaded.config.id2label == names


def test_direction_of_a_checkpoint(tmp_path: Path) -> None:
    """A masked model's trunk sees both directions, in a classifier too, until head or caller say otherwise."""
    GreffeForMaskedLM(tiny_config()).save_pretrained(tmp_path)
    assert GreffeForSequenceClassification.from_pretrained(tmp_path).config.is_causal is False
    assert GreffeForSequenceClassification.from_pretrained(tmp_path, is_causal=True).config.is_causal is True
    assert GreffeForCausalLM.from_pretrained(tmp_path).config.is_causal is True


@pytest.mark.parametrize(
    ("auto_class", "expected"),
    [
        (AutoModel, GreffeModel),
        (AutoModelForCausalLM, GreffeForCausalLM),
        (AutoModelForMaskedLM, GreffeForMaskedLM),
        (AutoModelForSequenceClassification, GreffeForSequenceClassification),
    ],
)
def test_auto_classes(auto_class: type, expected: type, causal_folder: Path) -> None:
    assert type(auto_class.from_pretrained(causal_folder)) is expected
    assert type(auto_class.from_config(AutoConfig.from_pretrained(causal_folder))) is expected


def test_only_safetensors_are_written(causal_folder: Path) -> None:
    weights = [path.name for path in causal_folder.iterdir() if path.suffix in (".safetensors", ".bin", ".pt", ".pth")]
    assert weights == ["model.safetensors"]


def test_folder_carries_its_code_and_every_head(causal_folder: Path) -> None:
    auto_map = json.loads((causal_folder / "config.json").read_text())["auto_map"]
    for target in auto_map.values():
        module, name = target.split(".")
        assert f"class {name}(" in (causal_folder / f"{module}.py").read_text()
