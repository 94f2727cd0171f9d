"""The path of the n-grams: scikit-learn's TF-IDF of the same tokens, blind to padding, silent until it is fitted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.modeling.ngrams import NgramPath
from tiny_models import random_ids, tiny_config
from torch import Tensor

ORDERS = [1, 2, 3]


def make_path(order: int, buckets: int = 2**12, num_labels: int = 3) -> NgramPath:
    path = NgramPath(tiny_config(ngram_order=order, ngram_buckets=buckets, num_labels=num_labels))
    fill(path)
    return path.requires_grad_(False)


def fill(path: NgramPath | None) -> None:
    """With every n-gram known and of weight: whatever is read in addition to the text changes the logits."""
    assert path is not None
    torch.nn.init.normal_(path.weight)
    torch.nn.init.uniform_(path.rarity, 1, 5)


def bucket_of(path: NgramPath, ngram: list[int]) -> int:
    """Of its length, it is the first in a text that has nothing else."""
    buckets, counts = (found.view(path.order, -1)[len(ngram) - 1] for found in path.count(torch.tensor([ngram])))
    assert counts.tolist() == [1] + [0] * (len(ngram) - 1) or len(ngram) == 1
    return int(buckets[0])


def ngrams_of(texts: list[list[int]], order: int) -> set[tuple[int, ...]]:
    lengths = range(1, order + 1)
    return {tuple(ids[at : at + n]) for ids in texts for n in lengths for at in range(len(ids) - n + 1)}


def draw_texts(lengths: list[int], vocabulary: int) -> list[list[int]]:
    return [torch.randint(4, 4 + vocabulary, (length,)).tolist() for length in lengths]


def identity(tokens: list[str]) -> list[str]:
    return tokens


def as_words(texts: list[list[int]]) -> list[list[str]]:
    return [[str(token) for token in ids] for ids in texts]


def learn_rarity(path: NgramPath, texts: list[list[int]]) -> tuple[Any, Tensor]:
    """scikit-learn's vectorizer of the texts, and the buckets of its columns, which are now as rare as it says."""
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="the extra `compare` is not installed")
    vectorizer = text.TfidfVectorizer(
        analyzer="word", tokenizer=identity, preprocessor=identity, token_pattern=None, ngram_range=(1, path.order),
        sublinear_tf=True,
    ).fit(as_words(texts))  # fmt: skip
    known = [[int(word) for word in name.split()] for name in vectorizer.get_feature_names_out()]
    columns = torch.tensor([bucket_of(path, ngram) for ngram in known])
    path.rarity.zero_()
    path.rarity[columns] = torch.tensor(vectorizer.idf_, dtype=torch.float32)
    return vectorizer, columns


@pytest.mark.parametrize("order", ORDERS)
def test_values_are_those_of_scikit_learn(order: int) -> None:
    path = make_path(order, buckets=2**20)
    known = draw_texts([20, 12, 7, 15, 2, 1], vocabulary=8)
    # Shorter than the order, with tokens and n-grams that are not known, with many repetitions, and of one token alone.
    others = [*draw_texts([1, 2, 3, 9, 25], vocabulary=12), [4] * 6, [5, 6] * 4, [90, 91]]
    ngrams = ngrams_of(known + others, order)
    assert len({bucket_of(path, list(ngram)) for ngram in ngrams}) == len(ngrams), "a collision: take other texts"
    assert ngrams > ngrams_of(known, order)
    vectorizer, columns = learn_rarity(path, known)
    matrix = vectorizer.transform(as_words(known + others)).toarray()
    assert matrix[:-1].any(1).all()
    for ids, row in zip(known + others, matrix, strict=True):
        buckets, counts = path.count(torch.tensor([ids]))
        found = torch.zeros(path.buckets).index_add_(0, buckets[0], path.values(buckets, counts)[0])
        np.testing.assert_allclose(found[columns], row, atol=1e-6, rtol=0)
        assert found.abs().sum().item() == pytest.approx(row.sum(), abs=1e-5)  # and nothing in any other bucket
        expected = torch.from_numpy(row).float() @ path.weight[columns]
        torch.testing.assert_close(path(torch.tensor([ids]))[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_text_shorter_than_the_order(order: int) -> None:
    """Its vector has length 1: of one token, all of it."""
    path = make_path(order)
    torch.testing.assert_close(path(torch.tensor([[7]]))[0], path.weight[bucket_of(path, [7])])
    mask = torch.tensor([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]])
    alone, also, nothing = path(torch.tensor([[9, 9, 9, 7], [7, 9, 9, 9], [9, 9, 9, 9]]), mask)
    torch.testing.assert_close(alone, path.weight[bucket_of(path, [7])])
    torch.testing.assert_close(also, alone)
    assert not nothing.any()


def test_order_of_tokens_counts_where_there_are_pairs() -> None:
    one, other = torch.tensor([[5, 6, 7]]), torch.tensor([[7, 6, 5]])
    words, pairs = make_path(1), make_path(2)
    torch.testing.assert_close(words(one), words(other))
    assert (pairs(one) - pairs(other)).abs().max() > 0.1


def test_ids_of_32_bits_and_masks_of_another_shape() -> None:
    path = make_path(3)
    ids = random_ids(2, 9)
    assert torch.equal(path(ids.int()), path(ids))
    assert torch.equal(path(ids, torch.zeros(2, 1, 9, 9)), path(ids))  # what each position sees: all tokens are real


@pytest.mark.parametrize("order", ORDERS)
def test_padding_on_either_side_changes_nothing(order: int, kind: str) -> None:
    model = GreffeForSequenceClassification(tiny_config(kind, ngram_order=order, ngram_buckets=64)).eval()
    fill(model.ngrams)
    ids, lengths = random_ids(3, 6), [6, 4, 1]
    texts = [row[:length] for row, length in zip(ids, lengths, strict=True)]
    with torch.no_grad():
        alone = torch.cat([model(text[None]).logits for text in texts])
        for left in (True, False):
            padded, mask = random_ids(3, 8), torch.zeros(3, 8, dtype=torch.long)  # padding that is words, if it is read
            for row, text in enumerate(texts):
                place = slice(8 - len(text), 8) if left else slice(len(text))
                padded[row, place], mask[row, place] = text, 1
            torch.testing.assert_close(model(padded, attention_mask=mask).logits, alone, atol=1e-5, rtol=1e-5)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Memory that is not written is NaN, and not by chance the zeros that it should be."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty_like(torch.empty(3, device="meta"), device="cpu").isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("poisoned_memory")
def test_a_new_path_says_nothing(causal_folder: Path) -> None:
    """Grafted onto a language model, which has none: the model is made without memory, which must then be filled."""
    logits = []
    for options in ({}, {"ngram_order": 2, "ngram_buckets": 64}):
        torch.manual_seed(5)
        model = GreffeForSequenceClassification.from_pretrained(causal_folder, num_labels=3, **options).eval()
        with torch.no_grad():
            logits.append(model(torch.arange(4, 24).view(2, 10)).logits)
    assert torch.equal(logits[0], logits[1])
    assert logits[0].abs().max() > 0.01
    assert model.ngrams is not None
    assert (model.ngrams.weight.shape, model.ngrams.rarity.shape) == ((64, 3), (64,))
    assert torch.equal(model.ngrams.weight, torch.zeros(64, 3))
    assert torch.equal(model.ngrams.rarity, torch.zeros(64))


def test_there_is_no_path_unless_asked_for() -> None:
    model = GreffeForSequenceClassification(tiny_config())
    assert model.ngrams is None
    assert not [name for name in model.state_dict() if "ngrams" in name]


@pytest.fixture
def saved(tmp_path: Path) -> tuple[GreffeForSequenceClassification, Path]:
    model = GreffeForSequenceClassification(tiny_config(ngram_order=2, ngram_buckets=64, num_labels=2)).eval()
    fill(model.ngrams)
    model.save_pretrained(tmp_path / "saved")
    return model, tmp_path / "saved"


def test_saved_and_loaded_bit_by_bit(saved: tuple[GreffeForSequenceClassification, Path]) -> None:
    model, folder = saved
    loaded, info = GreffeForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert loaded.ngrams.order == 2
    assert torch.equal(loaded.ngrams.weight, model.ngrams.weight)
    assert torch.equal(loaded.ngrams.rarity, model.ngrams.rarity)
    ids = random_ids(2, 9)
    with torch.no_grad():
        assert torch.equal(loaded.eval()(ids).logits, model(ids).logits)


@pytest.mark.usefixtures("poisoned_memory")
def test_other_labels_start_anew_with_what_is_rare(saved: tuple[GreffeForSequenceClassification, Path]) -> None:
    model, folder = saved
    loaded = GreffeForSequenceClassification.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True)
    assert torch.equal(loaded.ngrams.weight, torch.zeros(64, 5))
    assert torch.equal(loaded.ngrams.rarity, model.ngrams.rarity)


def test_embeddings_have_no_ngrams() -> None:
    model = GreffeForSequenceClassification(tiny_config(ngram_order=2, ngram_buckets=64))
    embeds = model.get_input_embeddings()(random_ids(1, 5))
    with pytest.raises(ValueError, match="expected input_ids with ngram_order=2, found inputs_embeds alone"):
        model(inputs_embeds=embeds)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_contributions_sum_to_the_logits(order: int, length: int) -> None:
    path, ids = make_path(order), random_ids(4, length, vocab_size=12)
    found = path.contributions(ids)
    assert found.shape == (4, length, 3)
    torch.testing.assert_close(found.sum(1), path(ids), atol=1e-5, rtol=1e-5)


def test_an_ngram_is_divided_over_its_tokens() -> None:
    path = make_path(3)
    names: list[list[int]] = [[5], [6], [7], [5, 6], [6, 7], [5, 6, 7]]
    rarity = torch.stack([path.rarity[bucket_of(path, name)] for name in names])
    shares = {
        tuple(name): path.weight[bucket_of(path, name)] * value
        for name, value in zip(names, rarity / rarity.norm(), strict=True)
    }
    pairs = shares[5, 6] / 2, shares[6, 7] / 2
    whole = shares[5, 6, 7] / 3
    expected = torch.stack(
        [shares[5,] + pairs[0] + whole, shares[6,] + pairs[0] + pairs[1] + whole, shares[7,] + pairs[1] + whole]
    )
    torch.testing.assert_close(path.contributions(torch.tensor([[5, 6, 7]]))[0], expected, atol=1e-5, rtol=1e-5)
