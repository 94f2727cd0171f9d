"""The spectral start: the decomposition is scikit-learn's and numpy's, and tokens of the same texts become alike."""

from pathlib import Path

import numpy as np
import pytest
import torch
from greffe.train.arguments import PretrainArguments
from greffe.train.pretrain import pretrain
from greffe.train.spectral import count_tokens, reduce_counts, start_embeddings
from invented_text import make_documents
from safetensors.torch import load_file
from sklearn.feature_extraction.text import TfidfTransformer


def two_subjects(documents: int = 200, seed: int = 0) -> list[list[int]]:
    """Tokens 10 to 29 stand together, and tokens 30 to 49; 50 to 59 stand anywhere."""
    draw = np.random.default_rng(seed)
    starts = draw.choice([10, 30], documents)
    return [[0, *draw.integers(start, start + 20, 12), *draw.integers(50, 60, 12), 2] for start in starts]


def test_counts_are_those_of_the_documents() -> None:
    documents = [[0, 5, 5, 7, 2], [0, 7, 2]]
    expected = torch.zeros(2, 9)
    expected[0, [0, 2, 7]] = 1
    expected[0, 5] = 2
    expected[1, [0, 2, 7]] = 1
    assert torch.equal(count_tokens(documents, 9).to_dense(), expected)


def test_directions_are_those_of_the_exact_decomposition() -> None:
    counts = count_tokens(two_subjects(), 60)
    vectors, known = reduce_counts(counts, 3, seed=0)
    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counts.to_dense().numpy())
    _, _, exact = np.linalg.svd(weighted.toarray())
    frequencies = (counts.to_dense() > 0).sum(0)
    for column in range(2):  # each is known up to its sign; later ones are noise here
        found = vectors[:, column]
        assert abs(float(found @ torch.from_numpy(exact[column]).float())) > 0.999
    assert known.tolist() == (frequencies >= 5).tolist()


def test_tokens_of_one_subject_become_alike_and_as_wide_as_the_draw() -> None:
    embedding = torch.nn.Embedding(64, 8)
    torch.nn.init.uniform_(embedding.weight, -0.1, 0.1)
    before = embedding.weight.detach().clone()
    assert start_embeddings(embedding, two_subjects(), special_ids=[0, 1, 2], seed=0) == 50
    weight = embedding.weight.detach()
    assert torch.equal(weight[:10], before[:10])  # special tokens, and those that no document has
    assert torch.equal(weight[60:], before[60:])
    # All of one length, that of the draw: long ones would be predicted everywhere, short ones never.
    lengths = weight[10:60].norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, before.std().item() * 8**0.5))
    similar = torch.nn.functional.cosine_similarity(weight[10:30].mean(0), weight[10:30])
    other = torch.nn.functional.cosine_similarity(weight[10:30].mean(0), weight[30:50])
    assert similar.mean() > other.mean() + 0.3


def test_the_same_seed_gives_the_same_start_and_disturbs_no_other_draw() -> None:
    embeddings = [torch.nn.Embedding(64, 8, _weight=torch.zeros(64, 8).uniform_(-0.1, 0.1)) for _ in range(2)]
    embeddings[1].load_state_dict(embeddings[0].state_dict())
    torch.manual_seed(5)
    start_embeddings(embeddings[0], two_subjects(), [], seed=1)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), drawn)
    start_embeddings(embeddings[1], two_subjects(), [], seed=1)
    assert torch.equal(embeddings[0].weight, embeddings[1].weight)


def test_a_corpus_smaller_than_the_model_is_wide() -> None:
    embedding = torch.nn.Embedding(64, 32)
    assert start_embeddings(embedding, two_subjects(9), [0, 2], seed=0) > 0
    assert torch.isfinite(embedding.weight).all()


@pytest.mark.parametrize("streaming", [False, True])
def test_pretraining_starts_from_it_unless_told_otherwise(tmp_path: Path, streaming: bool) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(make_documents(200)), encoding="utf-8")
    options = {
        "corpus": [str(tmp_path / "corpus.txt")], "tokenizer_vocab_size": 300, "hidden_size": 16, "block_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_steps": 1,
        "learning_rate": 1e-9, "streaming": streaming,
    }  # fmt: skip
    weights = {}
    for embeddings in ("spectral", "random"):
        folder = tmp_path / embeddings
        pretrain(PretrainArguments(output=str(folder), embeddings=embeddings, **options))
        weights[embeddings] = load_file(folder / "model.safetensors")
    changed = [
        name for name, value in weights["random"].items() if (value - weights["spectral"][name]).abs().max() > 1e-4
    ]
    assert changed == ["model.embed_tokens.weight"]
