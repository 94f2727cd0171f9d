"""A cache that leaves room for the next tokens, against the library's, which concatenates."""

import copy

import pytest
import torch
from greffe.modeling import GreffeForCausalLM
from greffe.modeling.cache import RoomyLayer, leave_room
from tiny_models import random_ids, tiny_config
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import DynamicLayer


def draw(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 2, length, 4), torch.randn(batch, 2, length, 4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_holds_what_the_library_holds(mode: type) -> None:
    """Over several enlargements, after cropping, reordering and repeating, in every mode."""
    ours, theirs = RoomyLayer(), DynamicLayer()
    with mode():
        for step, length in enumerate((5, 1, 100, 1, 1, 70, 1)):
            new = draw(3 * 2 ** (step > 3), length)
            for one, other in zip(ours.update(*new), theirs.update(*new), strict=True):
                assert torch.equal(one, other)
            for layer in (ours, theirs):
                if step == 1:
                    layer.crop(-2)
                if step == 2:
                    layer.reorder_cache(torch.tensor([2, 0, 0]))
                if step == 3:
                    layer.batch_repeat_interleave(2)
            assert torch.equal(ours.keys, theirs.keys)
            assert ours.get_seq_length() == theirs.get_seq_length()
    ours.reset()
    assert ours.get_seq_length() == 0


def test_a_new_token_is_not_a_copy_of_all() -> None:
    layer = RoomyLayer()
    with torch.no_grad():
        addresses = {layer.update(*draw(1, 1))[0].data_ptr() for _ in range(200)}
    assert len(addresses) < 6


def test_a_copy_has_a_room_of_its_own() -> None:
    layer = RoomyLayer()
    with torch.no_grad():
        layer.update(*draw(1, 3))
        other = copy.deepcopy(layer)
        kept, _ = layer.update(*draw(1, 1))
        kept = kept.clone()
        other.update(*draw(1, 1))
    assert torch.equal(layer.keys, kept)
    assert not torch.equal(other.keys, kept)


def test_what_was_begun_in_inference_mode_goes_on_outside() -> None:
    layer, new = RoomyLayer(), draw(1, 3)
    with torch.inference_mode():
        layer.update(*new)
    with torch.no_grad():
        keys, _ = layer.update(*new)
    assert torch.equal(keys, torch.cat([new[0], new[0]], dim=2))


def test_gradients_reach_what_is_cached() -> None:
    layer, (keys, values) = RoomyLayer(), draw(1, 2)
    keys.requires_grad_()
    layer.update(keys, values)
    layer.update(keys, values)[0].sum().backward()
    assert torch.equal(keys.grad, torch.full_like(keys, 2))


def test_only_empty_ordinary_caches_are_changed() -> None:
    config = tiny_config("modern")
    made, bare, static = DynamicCache(config=config), DynamicCache(), StaticCache(config=config, max_cache_len=8)
    used = DynamicCache()
    used.update(*draw(1, 2), 0)
    for cache in (made, bare, static, used):
        leave_room(cache)
    bare.update(*draw(1, 2), 0)
    assert {type(layer) for layer in (*made.layers, *bare.layers)} == {RoomyLayer}
    assert not any(isinstance(layer, RoomyLayer) for layer in (*static.layers, *used.layers))


def test_generation_uses_it() -> None:
    model = GreffeForCausalLM(tiny_config("modern")).eval()
    written = model.generate(random_ids(2, 5), max_new_tokens=4, return_dict_in_generate=True, eos_token_id=None)
    assert {type(layer) for layer in written.past_key_values.layers} == {RoomyLayer}
