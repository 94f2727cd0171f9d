"""What people do with transformers models: pipelines, dtypes, devices, outputs, resizing, adapters."""

from pathlib import Path

import peft
import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification, GreffeModel
from tiny_models import random_ids, tiny_config
from tiny_tokenizers import word_tokenizer
from transformers import pipeline

CLASSES = [GreffeModel, GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification]


def save(model_class: type, folder: Path, kind: str, **options) -> Path:
    model_class(tiny_config(kind, **options)).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def test_text_generation_pipeline(kind: str, tmp_path: Path) -> None:
    generator = pipeline("text-generation", model=str(save(GreffeForCausalLM, tmp_path, kind)))
    prompts = ["un bon livre", "le film"]
    together = generator(prompts, max_new_tokens=5, do_sample=False, batch_size=2)
    alone = [generator(prompt, max_new_tokens=5, do_sample=False) for prompt in prompts]
    assert together == alone
    assert together[0][0]["generated_text"].startswith("un bon livre")


def test_text_classification_pipeline(kind: str, tmp_path: Path) -> None:
    folder = save(GreffeForSequenceClassification, tmp_path, kind, id2label={0: "mauvais", 1: "bon"})
    classifier = pipeline("text-classification", model=str(folder))
    texts = ["un bon livre", "très mauvais", "le roman , la beau film !"]
    together = classifier(texts, batch_size=3)
    for one, other in zip(together, [classifier(text)[0] for text in texts], strict=True):
        assert one["label"] in ("mauvais", "bon")
        assert one["label"] == other["label"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_fill_mask_pipeline(kind: str, tmp_path: Path) -> None:
    filler = pipeline("fill-mask", model=str(save(GreffeForMaskedLM, tmp_path, kind)))
    candidates = filler("un <mask> livre", top_k=97)
    assert sum(candidate["score"] for candidate in candidates) == pytest.approx(1, abs=1e-4)
    changed = filler("un <mask> film", top_k=97)
    assert candidates[0]["score"] != changed[0]["score"], "what follows the mask is not seen"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("model_class", CLASSES)
def test_dtype(model_class: type, dtype: torch.dtype, kind: str, causal_folder: Path) -> None:
    model = model_class.from_pretrained(causal_folder, dtype=dtype).eval()
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    with torch.no_grad():
        output = model(random_ids(2, 5))[0]
    assert output.dtype == dtype
    assert torch.isfinite(output).all()


@pytest.mark.parametrize("device_map", ["cpu", {"": "cpu"}, {"model": "cpu", "lm_head": "disk"}])
def test_device_map(device_map, causal_folder: Path, kind: str, tmp_path: Path) -> None:
    if kind == "modern" and "lm_head" in device_map:
        device_map = {"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu", "lm_head": "cpu"}
    plain = GreffeForCausalLM.from_pretrained(causal_folder).eval()
    placed = GreffeForCausalLM.from_pretrained(causal_folder, device_map=device_map, offload_folder=tmp_path).eval()
    ids = random_ids(2, 5)
    with torch.no_grad():
        torch.testing.assert_close(placed(ids).logits, plain(ids).logits)


@pytest.mark.parametrize("model_class", CLASSES)
def test_hidden_states_and_attentions(model_class: type, kind: str) -> None:
    model = model_class(tiny_config(kind, attn_implementation="eager")).eval()
    ids = random_ids(2, 5)
    with torch.no_grad():
        output = model(ids, output_hidden_states=True, output_attentions=True)
        last = model.base_model(ids).last_hidden_state
    assert len(output.hidden_states) == 3
    torch.testing.assert_close(output.hidden_states[-1], last)
    assert [tuple(weights.shape) for weights in output.attentions] == [(2, 2, 5, 5)] * 2
    for weights in output.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))
        future = weights.triu(1).sum()
        assert (future == 0) == (model_class is not GreffeForMaskedLM)


def test_tuple_outputs() -> None:
    model = GreffeForCausalLM(tiny_config()).eval()
    ids = random_ids(1, 4)
    assert torch.equal(model(ids, return_dict=False)[0], model(ids).logits)


def test_embeddings_in_place_of_ids(kind: str) -> None:
    model = GreffeModel(tiny_config(kind)).eval()
    ids = random_ids(2, 5)
    with torch.no_grad():
        embeds = model.get_input_embeddings()(ids)
        assert torch.equal(model(inputs_embeds=embeds).last_hidden_state, model(ids).last_hidden_state)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model(ids, inputs_embeds=embeds)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()


@pytest.mark.parametrize("model_class", [GreffeForCausalLM, GreffeForMaskedLM])
@pytest.mark.parametrize("size", [110, 60])
def test_resizing_the_vocabulary(model_class: type, size: int, kind: str, tmp_path: Path) -> None:
    model = model_class(tiny_config(kind)).eval()
    torch.nn.init.normal_(model.lm_head.bias)
    ids = random_ids(2, 5, vocab_size=60)
    with torch.no_grad():
        before = model(ids).logits
        model.resize_token_embeddings(size)
        after = model(ids).logits
    assert (model.config.vocab_size, *model.lm_head.weight.shape) == (size, size, 32)
    assert model.lm_head.bias.shape == (size,)
    kept = min(size, 97)
    torch.testing.assert_close(after[..., :kept], before[..., :kept])
    tied = model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert tied == model.config.tie_word_embeddings
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(model_class.from_pretrained(tmp_path).eval()(ids).logits, after)


def test_tied_matrix_is_stored_and_counted_once(tmp_path: Path) -> None:
    model = GreffeForCausalLM(tiny_config("modern"))
    assert model.num_parameters() == GreffeModel(tiny_config("modern")).num_parameters() + 97
    model.save_pretrained(tmp_path)
    loaded = GreffeForCausalLM.from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


@pytest.mark.parametrize("model_class", [GreffeForCausalLM, GreffeForSequenceClassification])
def test_lora_on_the_trunk(model_class: type, kind: str, tmp_path: Path) -> None:
    base = model_class(tiny_config(kind)).eval()
    base.save_pretrained(tmp_path / "base")
    ids = random_ids(2, 5)
    with torch.no_grad():
        before = base(ids).logits
    lora = peft.LoraConfig(r=4, target_modules=["qkv_proj", "o_proj", "up_proj", "down_proj"], init_lora_weights=False)
    model = peft.get_peft_model(base, lora)
    assert {name.rsplit(".", 3)[-3] for name, p in model.named_parameters() if p.requires_grad} == {"lora_A", "lora_B"}
    labels = ids if model_class is GreffeForCausalLM else torch.tensor([0, 1])
    model.train()(ids, labels=labels).loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters() if p.requires_grad)
    with torch.no_grad():
        adapted = model.eval()(ids).logits
    assert not torch.allclose(adapted, before)
    model.save_pretrained(tmp_path / "adapter")
    loaded = peft.PeftModel.from_pretrained(model_class.from_pretrained(tmp_path / "base"), tmp_path / "adapter").eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, adapted)


def test_lora_on_the_head_is_not_bypassed_by_the_chunked_loss() -> None:
    lora = peft.LoraConfig(r=4, target_modules=["lm_head"], init_lora_weights=False)
    model = peft.get_peft_model(GreffeForCausalLM(tiny_config()), lora)
    ids = random_ids(2, 5)
    training = model.train()(ids, labels=ids).loss
    torch.testing.assert_close(training, model.eval()(ids, labels=ids).loss)
    training.backward()
    assert all(p.grad.any() for name, p in model.named_parameters() if "lora_" in name)
