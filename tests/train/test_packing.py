"""Rows of tokens: nothing lost, nothing twice, documents apart, and a cache that notices every change."""

import os
import shutil
from pathlib import Path

import datasets
import numpy as np
import pytest
from greffe.tokenization import encode_documents, read_corpus, train_tokenizer
from greffe.tokenization.corpus import Corpus
from greffe.tokenization.hub_dataset import HubDataset
from greffe.train import packing
from greffe.train.packing import (
    PackedRows,
    cut_documents,
    encode_part,
    fingerprint_corpus,
    is_validation,
    tokenize_corpus,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from invented_text import make_documents

TEXTS = make_documents(300, seed=2)
TOKENIZER = train_tokenizer(TEXTS, vocab_size=300)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def make_dataset(documents: list[list[int]], chunk: int) -> datasets.Dataset:
    parts = [documents[start : start + chunk] for start in range(0, len(documents), chunk)]
    return datasets.concatenate_datasets([datasets.Dataset.from_dict({"input_ids": part}) for part in parts])


@settings(deadline=None)  # making a dataset takes its time
@given(
    documents=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=20),
    block_size=st.integers(2, 12),
    chunk=st.integers(1, 5),
)
def test_rows_hold_every_token_in_order(documents: list[list[int]], block_size: int, chunk: int) -> None:
    tokens = [token for document in documents for token in document]
    if len(tokens) < block_size:
        with pytest.raises(ValueError, match=f"block_size={block_size} tokens, found {len(tokens)} tokens"):
            PackedRows(make_dataset(documents, chunk), block_size)
        return
    rows = PackedRows(make_dataset(documents, chunk), block_size)
    packed = [token for index in range(len(rows)) for token in rows[index]["input_ids"].tolist()]
    assert packed == tokens[: len(packed)]
    assert rows.dropped_tokens == len(tokens) - len(packed) < block_size
    assert rows.total_tokens == len(tokens)


@given(
    documents=st.lists(st.lists(st.integers(0, 99), min_size=2, max_size=30), max_size=5),
    block_size=st.integers(2, 12),
)
def test_each_token_of_a_document_is_predicted_once(documents: list[list[int]], block_size: int) -> None:
    rows = [row.tolist() for row in cut_documents(documents, block_size)]
    assert all(2 <= len(row) <= block_size for row in rows)
    assert [token for row in rows for token in row[1:]] == [token for document in documents for token in document[1:]]


def test_parts_share_no_text_and_lose_none(corpus_file: Path) -> None:
    documents = tokenize_corpus(read_corpus(corpus_file), TOKENIZER, 0.2, seed=0)
    expected = {part: [] for part in ("train", "validation")}
    for text, ids in zip(TEXTS, encode_documents(TOKENIZER, TEXTS), strict=True):
        expected["validation" if is_validation(text, 0.2, 0) else "train"].append(ids)
    assert documents.train["input_ids"][:] == expected["train"]
    assert documents.validation["input_ids"][:] == expected["validation"]
    assert sum(documents.validation["bytes"]) == sum(len(t.encode()) for t in TEXTS if is_validation(t, 0.2, 0))


def test_the_split_has_its_size_and_follows_the_seed() -> None:
    texts = [f"texte {index}" for index in range(4000)]
    chosen = {seed: {text for text in texts if is_validation(text, 0.1, seed)} for seed in (0, 1)}
    assert 300 < len(chosen[0]) < 500
    assert chosen[0] != chosen[1]
    assert chosen[0] == {text for text in texts if is_validation(text, 0.1, 0)}


def test_tokenising_again_reads_the_cache(corpus_file: Path, cache: Path) -> None:
    first = tokenize_corpus(read_corpus(corpus_file), TOKENIZER, 0.2, seed=0)
    written = {path: path.stat().st_mtime_ns for path in cache.rglob("*.arrow")}
    assert len(written) == 2
    again = tokenize_corpus(read_corpus(corpus_file), TOKENIZER, 0.2, seed=0)
    assert again.fingerprint == first.fingerprint
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.arrow")} == written


def test_any_change_is_another_name(corpus_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def name(tokenizer=TOKENIZER, fraction: float = 0.2, seed: int = 0, **reading: str) -> str:
        return fingerprint_corpus(read_corpus(corpus_file, **reading), tokenizer, fraction, seed)

    base = name()
    assert name() == base
    changed = {name(fraction=0.1), name(seed=1), name(separator="blank_line")}
    changed.add(name(train_tokenizer(TEXTS, vocab_size=310)))
    changed.add(name(train_tokenizer(TEXTS, vocab_size=300, lowercase=True)))
    time = corpus_file.stat().st_mtime_ns
    corpus_file.write_text("\n".join(TEXTS).replace("a", "o", 1), encoding="utf-8")
    os.utime(corpus_file, ns=(time, time))  # same size, same date, another text
    changed.add(name())
    code = tmp_path / "packing.py"
    code.write_text(Path(packing.__file__).read_text() + "\n# a change of the code\n")
    monkeypatch.setattr(packing, "__file__", str(code))
    changed.add(name())
    assert base not in changed
    assert len(changed) == 7


def test_a_saved_dataset_is_named_by_its_rows(tmp_path: Path) -> None:
    datasets.disable_progress_bars()

    def name(rows: datasets.Dataset) -> str:
        rows.save_to_disk(tmp_path / "saved")
        found = fingerprint_corpus(read_corpus(tmp_path / "saved"), TOKENIZER)
        assert found == fingerprint_corpus(read_corpus(tmp_path / "saved"), TOKENIZER)
        shutil.rmtree(tmp_path / "saved")
        return found

    rows = datasets.Dataset.from_dict({"text": TEXTS})
    changed = datasets.Dataset.from_dict({"text": [TEXTS[0][::-1], *TEXTS[1:]]})
    other_state = rows.with_format("numpy")
    assert name(rows) == name(other_state) != name(changed)


def test_a_dataset_of_the_hub_is_named_by_its_commit() -> None:
    datasets_of_the_hub = [
        HubDataset("owner/name", revision="a" * 40), HubDataset("owner/name", revision="b" * 40),
        HubDataset("owner/other", revision="a" * 40), HubDataset("owner/name", "fr", "a" * 40),
    ]  # fmt: skip
    assert len({fingerprint_corpus(Corpus([one]), TOKENIZER) for one in datasets_of_the_hub}) == 4


@pytest.mark.parametrize(("documents", "characters"), [(7, 10**6), (1000, 300)])
def test_documents_are_tokenised_in_batches_that_lose_none(
    documents: int, characters: int, corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_BATCH_DOCUMENTS", documents)
    monkeypatch.setattr(packing, "_BATCH_CHARACTERS", characters)
    found = [row["input_ids"] for row in encode_part(read_corpus(corpus_file), TOKENIZER, 0.0, 0, "train")]
    assert found == encode_documents(TOKENIZER, TEXTS)


def test_a_corpus_that_is_all_validation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("un seul texte")
    with pytest.raises(ValueError, match="expected documents to train on, found none"):
        tokenize_corpus(read_corpus(tmp_path / "one.txt"), TOKENIZER, 0.999999, seed=0)


def test_rows_know_their_epoch() -> None:
    rows = PackedRows(make_dataset([[1, 2, 3, 4]], 1), 2)
    assert rows[1]["draw"] == (0, 1)
    rows.epoch = 3
    assert rows[1]["draw"] == (3, 1)
    assert isinstance(rows[0]["input_ids"], np.ndarray)
