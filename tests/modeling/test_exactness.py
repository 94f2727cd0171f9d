"""The trunk against `torch.nn.TransformerEncoder`, and against itself: padded, packed, masked and loaded otherwise."""

import math
from pathlib import Path

import pytest
import torch
from greffe.modeling import (
    GreffeConfig,
    GreffeForCausalLM,
    GreffeForMaskedLM,
    GreffeForSequenceClassification,
    GreffeModel,
)
from greffe.modeling.attention import rotate, sinusoidal_embedding
from greffe.modeling.conversion import read_checkpoint
from reference_experiment import ReferenceModel
from tiny_models import random_ids, tiny_config
from torch import Tensor, nn

PAD = 1
LENGTHS = (9, 4, 1, 7)


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


def pad(texts: list[Tensor], side: str) -> dict[str, Tensor]:
    """A padded batch and its attention mask."""
    width = max(map(len, texts))
    rows = [
        nn.functional.pad(t, (width - len(t), 0) if side == "left" else (0, width - len(t)), value=PAD) for t in texts
    ]
    masks = [
        nn.functional.pad(torch.ones_like(t), (width - len(t), 0) if side == "left" else (0, width - len(t)))
        for t in texts
    ]
    return {"input_ids": torch.stack(rows), "attention_mask": torch.stack(masks)}


def texts() -> list[Tensor]:
    return [random_ids(1, length)[0] for length in LENGTHS]


def with_weights_of(reference: ReferenceModel, folder: Path) -> nn.Module:
    torch.save({"model_state_dict": reference.state_dict()}, folder / "reference.pt")
    return read_checkpoint(folder / "reference.pt").eval()


# Against the reference -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_language_model_equals_the_reference(tmp_path: Path, attention: str) -> None:
    reference = ReferenceModel()
    model = with_weights_of(reference, tmp_path)
    assert isinstance(model, GreffeForCausalLM)
    model.set_attn_implementation(attention)
    ids = random_ids(3, 11)
    with torch.no_grad():
        assert_close(model(ids).logits, reference.logits(ids))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_language_model_equals_the_reference(tmp_path: Path, side: str) -> None:
    reference = ReferenceModel()
    model = with_weights_of(reference, tmp_path)
    batch = pad(alone := texts(), side)
    with torch.no_grad():
        logits = model(**batch).logits
    for row, mask, text in zip(logits, batch["attention_mask"], alone, strict=True):
        assert_close(row[mask.bool()], reference.logits(text[None])[0])


@pytest.mark.parametrize("side", ["left", "right", "none"])
def test_classifier_equals_the_reference_on_the_last_real_token(tmp_path: Path, side: str) -> None:
    reference = ReferenceModel(outputs=3)
    model = with_weights_of(reference, tmp_path)
    assert isinstance(model, GreffeForSequenceClassification)
    alone = texts()
    with torch.no_grad():
        logits = (
            model(**pad(alone, side)).logits if side != "none" else torch.cat([model(t[None]).logits for t in alone])
        )
    assert_close(logits, torch.stack([reference.logits(text[None])[0, -1] for text in alone]))


def test_sinusoids_are_those_of_the_description() -> None:
    table = sinusoidal_embedding(torch.tensor([0, 1, 77, 4000]), 200)
    for row, position in zip(table, (0, 1, 77, 4000), strict=True):
        for i in (0, 1, 42, 99):
            angle = position / 10000 ** (2 * i / 200)
            assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=3e-4)  # fp32 angles up to 4000 radians
            assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=3e-4)


def test_rotation_is_that_of_complex_numbers() -> None:
    angles = torch.rand(1, 5, 4) * 6
    states = torch.randn(1, 2, 5, 8)
    turned = torch.complex(states[..., :4], states[..., 4:]) * torch.polar(torch.ones(1, 1, 5, 4), angles[:, None])
    assert_close(rotate(states, angles.cos(), angles.sin()), torch.cat([turned.real, turned.imag], dim=-1))


def test_rotary_positions_are_relative() -> None:
    """Moving a whole text changes nothing; moving a part of it does."""
    model = GreffeModel(tiny_config("modern")).eval()
    ids, positions = random_ids(1, 6), torch.arange(6)[None]
    with torch.no_grad():
        expected = model(ids).last_hidden_state
        assert_close(model(ids, position_ids=positions + 37).last_hidden_state, expected)
        stretched = model(ids, position_ids=positions * 2, attention_mask=torch.ones(1, 6)).last_hidden_state
    assert not torch.allclose(stretched, expected, atol=1e-3)


def test_weights_are_drawn_as_in_the_experiment() -> None:
    """Each weight has the reference's range: bounds of the uniform laws, or constants."""
    torch.manual_seed(0)
    config = GreffeConfig(vocab_size=500, hidden_size=64, num_hidden_layers=1)
    layer = GreffeForCausalLM(config).model.layers[0]
    theirs = nn.TransformerEncoderLayer(64, 2, 64)
    pairs = {
        layer.self_attn.qkv_proj.weight: theirs.self_attn.in_proj_weight,
        layer.self_attn.qkv_proj.bias: theirs.self_attn.in_proj_bias,
        layer.self_attn.o_proj.weight: theirs.self_attn.out_proj.weight,
        layer.self_attn.o_proj.bias: theirs.self_attn.out_proj.bias,
        layer.mlp.up_proj.weight: theirs.linear1.weight,
        layer.mlp.up_proj.bias: theirs.linear1.bias,
        layer.mlp.down_proj.weight: theirs.linear2.weight,
        layer.mlp.down_proj.bias: theirs.linear2.bias,
        layer.self_attn_norm.weight: theirs.norm1.weight,
        layer.mlp_norm.bias: theirs.norm2.bias,
    }
    for ours, reference in pairs.items():
        assert ours.abs().max().item() == pytest.approx(reference.abs().max().item(), rel=0.1)
        assert ours.std().item() == pytest.approx(reference.std().item(), rel=0.2)


@pytest.mark.parametrize("model_class", [GreffeForCausalLM, GreffeForSequenceClassification])
def test_embeddings_and_heads_are_uniform_with_zero_bias(model_class: type) -> None:
    model = model_class(GreffeConfig(vocab_size=500, hidden_size=64, num_labels=50))
    head = model.lm_head if model_class is GreffeForCausalLM else model.score
    for weight in (model.model.embed_tokens.weight, head.weight):
        assert 0.099 < weight.abs().max().item() <= 0.1
        assert weight.std().item() == pytest.approx(0.2 / math.sqrt(12), rel=0.05)
    assert not head.bias.any()


# Against itself ------------------------------------------------------------------------------------------------------


def test_a_token_changes_nothing_before_it(kind: str) -> None:
    model = GreffeForCausalLM(tiny_config(kind)).eval()
    ids = random_ids(2, 10)
    for t in (3, 9):
        changed = ids.clone()
        changed[:, t] = (changed[:, t] + 1) % 97
        with torch.no_grad():
            before, after = model(ids).logits, model(changed).logits
        assert torch.equal(before[:, :t], after[:, :t])
        assert not torch.allclose(before[:, t:], after[:, t:])


@pytest.mark.parametrize("is_causal", [True, False])
def test_direction_is_what_the_configuration_says(kind: str, is_causal: bool) -> None:
    model = GreffeModel(tiny_config(kind, is_causal=is_causal)).eval()
    ids = random_ids(1, 6)
    changed = ids.clone()
    changed[0, -1] = (changed[0, -1] + 1) % 97
    with torch.no_grad():
        same = torch.allclose(model(ids).last_hidden_state[0, 0], model(changed).last_hidden_state[0, 0])
    assert same == is_causal


def test_heads_of_one_direction_leave_the_callers_configuration_alone() -> None:
    config = tiny_config(is_causal=True)
    assert GreffeForMaskedLM(config).config.is_causal is False
    assert config.is_causal is True
    config.is_causal = False
    assert GreffeForCausalLM(config).config.is_causal is True
    assert config.is_causal is False


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_attention_implementations_agree(kind: str, is_causal: bool, attention: str, side: str) -> None:
    model = GreffeModel(tiny_config(kind, is_causal=is_causal, attn_implementation="sdpa")).eval()
    batch = pad(texts(), side)
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        expected = model(**batch).last_hidden_state[real]
        model.set_attn_implementation(attention)
        assert_close(model(**batch).last_hidden_state[real], expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("is_causal", [True, False])
def test_padding_changes_nothing(kind: str, side: str, is_causal: bool) -> None:
    model = GreffeModel(tiny_config(kind, is_causal=is_causal)).eval()
    batch = pad(alone := texts(), side)
    with torch.no_grad():
        padded = model(**batch).last_hidden_state
        for row, mask, text in zip(padded, batch["attention_mask"], alone, strict=True):
            assert_close(row[mask.bool()], model(text[None]).last_hidden_state[0])


@pytest.mark.parametrize(
    ("side", "is_causal", "needed"), [("right", True, False), ("left", True, True), ("right", False, True)]
)
def test_padding_that_follows_a_causal_text_needs_no_mask(side: str, is_causal: bool, needed: bool) -> None:
    """Without one, torch's attention skips the half of its work that the square mask hides."""
    model = GreffeModel(tiny_config(is_causal=is_causal, attn_implementation="sdpa")).eval()
    masks: list[Tensor | None] = []
    model.layers[0].register_forward_pre_hook(
        lambda _, __, kwargs: masks.append(kwargs["attention_mask"]), with_kwargs=True
    )
    with torch.no_grad():
        model(**pad(texts(), side))
    assert [mask is not None for mask in masks] == [needed]


@pytest.mark.parametrize("pooling", ["last", "mean", "layers"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_classifier_reads_real_tokens_only(kind: str, pooling: str, side: str) -> None:
    # The padding id stands in the texts too: only the mask tells which tokens are real.
    model = GreffeForSequenceClassification(tiny_config(kind, classifier_pooling=pooling, pad_token_id=2)).eval()
    alone = [torch.cat([text, torch.tensor([2])]) for text in texts()]
    with torch.no_grad():
        expected = torch.cat([model(text[None]).logits for text in alone])
        assert_close(model(**pad(alone, side)).logits, expected)


def test_mean_and_last_pooling_differ() -> None:
    last = GreffeForSequenceClassification(tiny_config()).eval()
    mean = GreffeForSequenceClassification(tiny_config(classifier_pooling="mean")).eval()
    mean.load_state_dict(last.state_dict())
    ids = random_ids(2, 6)
    with torch.no_grad():
        hidden = last.model(ids).last_hidden_state
        assert_close(last(ids).logits, last.score(hidden[:, -1]))
        assert_close(mean(ids).logits, last.score(hidden.mean(1)))


@pytest.mark.parametrize("is_causal", [True, False])
def test_means_of_all_layers_side_by_side(kind: str, is_causal: bool) -> None:
    options = {"classifier_pooling": "layers", "is_causal": is_causal, "num_labels": 3}
    model = GreffeForSequenceClassification(tiny_config(kind, **options)).eval()
    trunk, ids = model.model, random_ids(2, 6)
    with torch.no_grad():
        found = model(ids)
        states = trunk(ids, output_hidden_states=True).hidden_states
        assert_close(found.logits, model.score(torch.cat([each.mean(1) for each in states], -1)))
        assert_close(states[-1], trunk(ids).last_hidden_state)
        assert found.hidden_states is None  # they were not asked for
        assert len(model(ids, output_hidden_states=True).hidden_states) == len(trunk.layers) + 1


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("use_cache", [True, False])
def test_packed_documents_do_not_see_each_other(kind: str, is_causal: bool, use_cache: bool) -> None:
    model = GreffeModel(tiny_config(kind, is_causal=is_causal)).eval()
    alone = texts()
    packed = torch.cat(alone)[None]
    positions = torch.cat([torch.arange(len(text)) for text in alone])[None]
    with torch.no_grad():
        together = model(packed, position_ids=positions, use_cache=use_cache).last_hidden_state[0]
        assert_close(together, torch.cat([model(text[None]).last_hidden_state[0] for text in alone]))


def test_any_length_runs_and_extends_the_shorter_text(kind: str) -> None:
    model = GreffeForCausalLM(tiny_config(kind)).eval()
    ids = random_ids(1, 6000)
    with torch.no_grad():
        long = model(ids, logits_to_keep=torch.tensor([0, 100, 5999])).logits
        assert_close(long[:, :2], model(ids[:, :101], logits_to_keep=torch.tensor([0, 100])).logits)
    assert torch.isfinite(long).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_survive_saving_and_loading(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Weights, and also what is not a weight: positions are the same after `from_pretrained`."""
    model = GreffeForCausalLM(tiny_config(kind)).to(dtype).eval()
    model.save_pretrained(tmp_path)
    loaded = GreffeForCausalLM.from_pretrained(tmp_path, dtype=dtype).eval()
    ids = random_ids(2, 300)
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)


def test_bf16_positions_are_not_rounded() -> None:
    """Positions of a model in bf16 still tell 1000 from 1001, which an 8-bit mantissa cannot."""
    model = GreffeModel(tiny_config()).to(torch.bfloat16).eval()
    same_token = torch.full((1, 2), 5)
    with torch.no_grad():
        first, second = model(
            same_token, position_ids=torch.tensor([[1000, 1001]]), attention_mask=torch.ones(1, 2)
        ).last_hidden_state[0]
    assert not torch.equal(first, second)
