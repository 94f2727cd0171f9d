"""Names on the Hub: what is one, what is read from it, and what is said where there is no network, as in tests."""

from __future__ import annotations

import json

import pytest
from greffe.tokenization import read_corpus, train_tokenizer
from greffe.tokenization.corpus import Corpus, is_hub_name
from greffe.tokenization.hub_dataset import HubDataset

TEXTS = [f"texte numéro {index}" for index in range(300)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The library reads a folder of files as it reads the Hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "train.jsonl").write_text("\n".join(json.dumps({"body": text}) for text in TEXTS))
    return tmp_path / "hub"


def test_what_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("owner/name", "owner/name:fr", "owner/name@v1.0", "owner/na-me_1.2:20.fr@refs/convert/parquet")
    assert all(is_hub_name(name) for name in names)
    paths = ("name", "owner/name.txt", "owner/name.jsonl.gz", "./name", "../name", "/owner/name", "a/b/c", "owner/*")
    assert not any(is_hub_name(path) for path in paths)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert not is_hub_name("owner/name")


@pytest.mark.parametrize("name", ["owner/name", "owner/name:fr@v1"])
def test_without_a_network_a_name_is_one_clear_line(name):
    with pytest.raises(FileNotFoundError) as caught:
        read_corpus(name)
    assert str(caught.value) == (
        f"expected files, a folder, a glob or a dataset, found {name}: no such file, and the Hub is not asked for a "
        "dataset so named, as HF_HUB_OFFLINE is set; correct the path, or unset it"
    )


def test_documents_are_read_in_order_and_again_in_each_pass(folder, tmp_path):
    (tmp_path / "first.jsonl").write_text('{"body": "d\'abord"}')
    corpus = Corpus([tmp_path / "first.jsonl", HubDataset(str(folder))], text_column="body")
    assert list(corpus) == list(corpus) == ["d'abord", *TEXTS]


def test_a_total_that_is_unknown_does_not_stop_the_bar(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    corpus = Corpus([HubDataset(str(folder))], text_column="body")
    assert corpus.total_bytes is None
    train_tokenizer(corpus, vocab_size=270, progress=True)
    assert "300 documents" in capsys.readouterr().err


def test_faults_are_named(folder):
    with pytest.raises(
        ValueError, match=r"expected a column 'text' in .*hub, found \['body'\]; pass --text_column body"
    ):
        list(HubDataset(str(folder)).read_texts("text"))
    with pytest.raises(ValueError, match=r"expected a split 'train' in .*hub:fr, found: .*Available: \['default'\]"):
        list(HubDataset(str(folder), config="fr").read_texts("body"))
    (folder / "train.jsonl").write_text('{"body": "un"}\n{"body": null}\n')
    with pytest.raises(ValueError, match=r"expected text in 'body' of .*hub, row 2, found nothing"):
        list(HubDataset(str(folder)).read_texts("body"))
    (folder / "train.jsonl").rename(folder / "test.jsonl")
    with pytest.raises(ValueError, match=r"expected a split 'train' in .*hub, found: .*\['test'\]"):
        list(HubDataset(str(folder)).read_texts("body"))
