import dataclasses
import json
from pathlib import Path

import pytest
from greffe.modeling import PRESETS, GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification, GreffeModel
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig

REFUSED = (ValueError, StrictDataclassError)


def test_defaults_have_the_parameters_of_the_experiment() -> None:
    assert GreffeForCausalLM(GreffeConfig()).num_parameters() == 21_018_401
    assert GreffeForSequenceClassification(GreffeConfig()).num_parameters() == 10_968_602


def test_lab_preset_is_the_default() -> None:
    assert GreffeConfig.from_preset("lab").to_dict() == GreffeConfig().to_dict()


def test_small_preset_is_what_the_documentation_says() -> None:
    config = GreffeConfig.from_preset("small")
    assert (config.norm_first, config.hidden_act, config.tie_word_embeddings) == (True, "gelu", True)
    assert GreffeForCausalLM(config).num_parameters() == 5_264_896


@pytest.mark.parametrize("name", PRESETS)
def test_presets_accept_overrides(name: str) -> None:
    assert GreffeConfig.from_preset(name, num_hidden_layers=7).num_hidden_layers == 7


def test_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected a preset among \['lab', 'small'\], found 'smal'"):
        GreffeConfig.from_preset("smal")


def test_feed_forward_is_as_wide_as_the_model_unless_told() -> None:
    assert GreffeConfig(hidden_size=64).intermediate_size == 64
    assert GreffeConfig(hidden_size=64, intermediate_size=10).intermediate_size == 10


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"hidden_size": 30, "num_attention_heads": 4}, ["hidden_size=30", "num_attention_heads=4"]),
        (
            {"hidden_size": 30, "num_attention_heads": 2, "position_embedding_type": "rotary"},
            ["hidden_size=30", "num_attention_heads=2"],
        ),
        ({"hidden_size": 33, "num_attention_heads": 3}, ["sinusoidal", "hidden_size=33"]),
        ({"vocab_size": 2}, ["vocab_size=2", "found 2"]),
        ({"pad_token_id": 60_000}, ["pad_token_id", "vocab_size=50001", "60000"]),
        ({"eos_token_id": [2, -1]}, ["eos_token_id", "found -1"]),
        ({"hidden_dropout": 1.0}, ["hidden_dropout", "1.0"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "0"]),
        ({"hidden_act": "rleu"}, ["'rleu'", "'relu'"]),
        ({"position_embedding_type": "learned"}, ["learned", "rotary"]),
        ({"classifier_pooling": "max"}, ["max", "mean"]),
        ({"hidden_size": "200"}, ["hidden_size", "200"]),
        ({"ngram_order": -1}, ["ngram_order of at least 0", "found -1 and 262144"]),
        ({"ngram_buckets": 0}, ["ngram_buckets of at least 1", "found 0 and 0"]),
    ],
)
def test_invalid_values_are_refused_and_quoted(options: dict, values: list[str]) -> None:
    with pytest.raises(REFUSED) as refusal:
        GreffeConfig(**options)
    assert all(value in str(refusal.value) for value in values), refusal.value


def test_misspelt_keyword_is_refused() -> None:
    with pytest.raises(ValueError, match=r"found \['hiden_size'\]"):
        GreffeConfig(hiden_size=100)


def test_misspelt_keyword_is_refused_when_loading(tmp_path: Path) -> None:
    GreffeForCausalLM(GreffeConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="drop_out"):
        AutoConfig.from_pretrained(tmp_path, drop_out=0.1)
    with pytest.raises(TypeError, match="drop_out"):
        GreffeModel.from_pretrained(tmp_path, drop_out=0.1)


def test_override_when_loading_is_checked(tmp_path: Path) -> None:
    GreffeConfig().save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path, hidden_dropout=0.25).hidden_dropout == 0.25
    with pytest.raises(REFUSED, match="num_attention_heads=3"):
        AutoConfig.from_pretrained(tmp_path, num_attention_heads=3)


def test_what_transformers_passes_and_saves_is_accepted(tmp_path: Path) -> None:
    config = GreffeConfig(num_labels=3, attn_implementation="eager", output_attentions=True, dtype="float32")
    config.architectures = ["GreffeForCausalLM"]
    config.note_of_mine = "an attribute that someone set"
    config.save_pretrained(tmp_path)
    loaded = GreffeConfig.from_pretrained(tmp_path)
    assert loaded.note_of_mine == "an attribute that someone set"
    assert loaded.to_dict() == config.to_dict()


def test_round_trip_keeps_every_option(tmp_path: Path) -> None:
    changed = GreffeConfig(
        vocab_size=90, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=20,
        hidden_act="silu", norm_first=True, layer_norm_eps=1e-6, position_embedding_type="rotary", is_causal=False,
        shifted_masks=True, tie_word_embeddings=True, hidden_dropout=0.1, attention_dropout=0.2, classifier_dropout=0.3,
        classifier_pooling="mean", ngram_order=2, ngram_buckets=64, initializer_range=0.05, use_cache=False,
        bos_token_id=5, pad_token_id=6, eos_token_id=7,
    )  # fmt: skip
    own = {field.name for field in dataclasses.fields(GreffeConfig)}
    own -= {field.name for field in dataclasses.fields(PreTrainedConfig)} | {"auto_map"}
    default = GreffeConfig()
    assert not [name for name in own if getattr(changed, name) == getattr(default, name)], "change it above too"
    changed.save_pretrained(tmp_path)
    loaded = GreffeConfig.from_pretrained(tmp_path)
    assert {name: getattr(loaded, name) for name in own} == {name: getattr(changed, name) for name in own}


def test_saved_file_is_plain_json_with_every_head(tmp_path: Path) -> None:
    GreffeConfig().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "greffe"
    assert set(saved["auto_map"]) == {
        "AutoConfig",
        "AutoModel",
        "AutoModelForCausalLM",
        "AutoModelForMaskedLM",
        "AutoModelForSequenceClassification",
    }
