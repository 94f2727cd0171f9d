"""A model and a tokenizer are refused where they meet if they do not fit."""

from __future__ import annotations

import pytest
from greffe.modeling import GreffeConfig, GreffeForCausalLM
from greffe.tokenization import check_compatible


@pytest.mark.parametrize("vocab_size", [500, 512, 500 + 511])
def test_a_vocabulary_rounded_up_fits(bpe, vocab_size):
    check_compatible(GreffeConfig(vocab_size=vocab_size), bpe)


@pytest.mark.parametrize("vocab_size", [499, 500 + 512])
def test_other_sizes_do_not(bpe, vocab_size):
    with pytest.raises(ValueError, match=rf"vocab_size={vocab_size:,} beside 500 tokens"):
        check_compatible(GreffeConfig(vocab_size=vocab_size), bpe)


@pytest.mark.parametrize("name", ["bos_token_id", "pad_token_id", "eos_token_id"])
def test_special_ids(bpe, name):
    with pytest.raises(ValueError, match=rf"{name}=7 beside {getattr(bpe, name)} in"):
        check_compatible(GreffeConfig(vocab_size=500, **{name: 7}), bpe)
    check_compatible(GreffeConfig(vocab_size=500, **{name: None}), bpe)  # nothing expected, nothing refused


def test_one_of_several_end_tokens_is_enough(bpe):
    check_compatible(GreffeConfig(vocab_size=500, eos_token_id=[5, 2]), bpe)
    with pytest.raises(ValueError, match=r"eos_token_id=\[5, 6\] beside 2"):
        check_compatible(GreffeConfig(vocab_size=500, eos_token_id=[5, 6]), bpe)


def test_the_error_names_both_sides_every_difference_and_what_to_do(bpe):
    model = GreffeForCausalLM(GreffeConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, pad_token_id=4))
    model.config.name_or_path = "models/small"
    with pytest.raises(ValueError, match="expected a tokenizer that fits") as error:
        check_compatible(model, bpe)
    assert str(error.value) == (
        "expected a tokenizer that fits the model, found GreffeForCausalLM models/small with vocab_size=50 beside 500 "
        "tokens; pad_token_id=4 beside 1 in a TokenizersBackend; use the tokenizer saved in the model's folder, or "
        "start a new model with vocab_size=500, bos_token_id=0, pad_token_id=1, eos_token_id=2"
    )
