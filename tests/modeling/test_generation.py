"""Generation with any cache, strategy and padding gives the same tokens."""

from typing import Any

import pytest
import torch
from greffe.modeling import GreffeForCausalLM
from tiny_models import random_ids, tiny_config
from torch import Tensor, nn

STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 3},
    "sampled": {"do_sample": True, "top_k": 20, "temperature": 0.8},
}
CACHES: dict[str, dict[str, Any]] = {
    "dynamic": {"use_cache": True},
    "static": {"cache_implementation": "static"},
    "none": {"use_cache": False},
}


@pytest.fixture
def model(kind: str) -> GreffeForCausalLM:
    model = GreffeForCausalLM(tiny_config(kind)).eval()
    nn.init.normal_(model.model.embed_tokens.weight, std=0.5)  # far from ties between tokens
    nn.init.normal_(model.lm_head.weight, std=0.5)
    return model


def generate(model: GreffeForCausalLM, ids: Tensor, length: int = 12, **options: Any) -> Tensor:
    torch.manual_seed(7)
    return model.generate(ids, max_new_tokens=length, min_new_tokens=length, **options)[:, ids.shape[1] :]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_caches_agree(model: GreffeForCausalLM, strategy: str) -> None:
    ids = random_ids(2, 5)
    results = {
        name: generate(
            model, ids, attention_mask=torch.ones_like(ids), disable_compile=True, **STRATEGIES[strategy], **cache
        )
        for name, cache in CACHES.items()
    }
    assert results["dynamic"].shape == (2, 12)
    assert torch.equal(results["dynamic"], results["none"])
    assert torch.equal(results["static"], results["none"])


def test_greedy_is_the_argmax_of_the_whole_text(model: GreffeForCausalLM) -> None:
    ids = random_ids(1, 4)
    text = ids
    for token in generate(model, ids, do_sample=False)[0]:
        with torch.no_grad():
            logits = model(text).logits[0, -1]
        logits[model.config.eos_token_id] = -torch.inf  # min_new_tokens forbids the end
        assert logits.argmax() == token
        text = torch.cat([text, token[None, None]], dim=1)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("strategy", ["greedy", "beam"])
def test_left_padded_prompts_give_the_tokens_that_they_give_alone(
    model: GreffeForCausalLM, cache: str, strategy: str
) -> None:
    prompts = [random_ids(1, length) for length in (7, 2, 4)]
    alone = [generate(model, p, attention_mask=torch.ones_like(p), **STRATEGIES[strategy]) for p in prompts]
    padded = torch.cat([nn.functional.pad(p, (7 - p.shape[1], 0), value=1) for p in prompts])
    mask = torch.cat([nn.functional.pad(torch.ones_like(p), (7 - p.shape[1], 0)) for p in prompts])
    options = {"disable_compile": True, **STRATEGIES[strategy], **CACHES[cache]}
    assert torch.equal(generate(model, padded, attention_mask=mask, **options), torch.cat(alone))


def test_generation_stops_at_the_end_of_text(model: GreffeForCausalLM) -> None:
    with torch.no_grad():
        model.lm_head.bias[2] = 1000.0
    generated = model.generate(random_ids(1, 3), max_new_tokens=10)
    assert generated[0, 3:].tolist() == [2]


def test_prompt_longer_than_any_seen(model: GreffeForCausalLM) -> None:
    ids = random_ids(1, 1500)
    assert torch.equal(
        generate(model, ids, 4, do_sample=False), generate(model, ids, 4, do_sample=False, use_cache=False)
    )


def test_logits_to_keep(model: GreffeForCausalLM) -> None:
    ids = random_ids(2, 6)
    with torch.no_grad():
        full = model(ids).logits
        torch.testing.assert_close(model(ids, logits_to_keep=2).logits, full[:, -2:])
        torch.testing.assert_close(model(ids, logits_to_keep=torch.tensor([0, 3])).logits, full[:, [0, 3]])


def test_masked_checkpoint_generates_causally(tmp_path) -> None:
    from greffe.modeling import GreffeForMaskedLM

    GreffeForMaskedLM(tiny_config()).save_pretrained(tmp_path)
    model = GreffeForCausalLM.from_pretrained(tmp_path).eval()
    ids = random_ids(1, 5)
    dynamic = generate(model, ids, do_sample=False)
    assert torch.equal(dynamic, generate(model, ids, do_sample=False, use_cache=False))
    assert torch.equal(
        dynamic, generate(model, ids, do_sample=False, cache_implementation="static", disable_compile=True)
    )
