"""Datasets that the library has saved are read like any other corpus, from the files that hold their rows."""

from __future__ import annotations

import json
import tracemalloc

import datasets
import pytest
from greffe.tokenization import load_tokenizer, read_corpus
from greffe.train.cli import main

TEXTS = [f"texte numéro {index}" for index in range(2500)]


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def make_dataset(texts=TEXTS, **columns):
    return datasets.Dataset.from_dict({"label": [0] * len(texts), "text": texts, **columns})


@pytest.mark.parametrize("shards", [1, 3])
def test_the_rows_of_a_saved_dataset_in_their_order(tmp_path, shards):
    make_dataset().save_to_disk(tmp_path / "saved", num_shards=shards)
    corpus = read_corpus(tmp_path / "saved")
    assert list(corpus) == list(corpus) == TEXTS
    assert len(corpus.sources) == shards


def test_of_several_splits_the_one_for_training_and_each_by_its_folder(tmp_path):
    splits = {"test": make_dataset(["essai"]), "train": make_dataset(["un", "deux"])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    assert list(read_corpus(tmp_path / "saved")) == ["un", "deux"]
    assert list(read_corpus(tmp_path / "saved" / "test")) == ["essai"]
    datasets.DatasetDict(essai=make_dataset(["a"])).save_to_disk(tmp_path / "other")
    with pytest.raises(ValueError, match=r"a split 'train' in .*, found \['essai'\]; pass .* such as .*other/essai"):
        read_corpus(tmp_path / "other")


def test_results_that_the_library_caches_beside_the_rows_are_not_rows(tmp_path):
    make_dataset(["un", "deux", "trois"]).save_to_disk(tmp_path / "saved")
    loaded = datasets.load_from_disk(tmp_path / "saved")
    loaded.map(lambda row: {"text": row["text"].upper()})
    assert len([*(tmp_path / "saved").glob("*.arrow")]) == 2
    assert list(read_corpus(tmp_path / "saved")) == ["un", "deux", "trois"]


def test_in_a_folder_beside_other_files(tmp_path):
    make_dataset(["b"]).save_to_disk(tmp_path / "b")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "c.txt").write_text("c")
    (tmp_path / "cache.arrow").write_bytes(b"nobody knows")
    assert list(read_corpus([tmp_path, tmp_path / "b"])) == ["a", "b", "c"]


def test_progress_grows_to_the_total(tmp_path):
    make_dataset().save_to_disk(tmp_path / "saved", num_shards=2)
    corpus = read_corpus(tmp_path / "saved")
    assert corpus.total_bytes == sum(path.stat().st_size for path in (tmp_path / "saved").glob("*.arrow"))
    positions = [corpus.bytes_read for _ in corpus]
    assert positions == sorted(positions)
    assert 0 < positions[0] < corpus.total_bytes * 0.6
    assert corpus.bytes_read == corpus.total_bytes


def test_reading_takes_constant_memory(tmp_path):
    make_dataset([f"{index} " + "un document " * 400 for index in range(3000)]).save_to_disk(tmp_path / "saved")
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_corpus(tmp_path / "saved")) == 3000  # 14 MB
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000  # two pieces of 1,024 rows


def test_the_tokenizer_command_takes_it(tmp_path, capsys):
    make_dataset(body=TEXTS).save_to_disk(tmp_path / "saved")
    options = ["--corpus", str(tmp_path / "saved"), "--text_column", "body", "--vocab_size", "270"]
    assert main(["tokenizer", "train", *options, "--output", str(tmp_path / "tokenizer")]) == 0
    assert len(load_tokenizer(tmp_path / "tokenizer")) == 270
    assert "tokenizer of 270 tokens" in capsys.readouterr().out


def test_faults_are_named(tmp_path):
    folder = tmp_path / "saved"
    make_dataset(["un", None]).save_to_disk(folder)
    data = folder / "data-00000-of-00001.arrow"
    with pytest.raises(ValueError, match=r"expected a column 'body' in .*arrow, found \['label', 'text'\]"):
        list(read_corpus(folder, text_column="body"))
    with pytest.raises(ValueError, match=r"expected text in column 'label' of .*arrow, found values of type int64"):
        list(read_corpus(folder, text_column="label"))
    with pytest.raises(ValueError, match=r"expected text in 'text' of .*arrow, row 2, found nothing"):
        list(read_corpus(folder))
    data.write_bytes(data.read_bytes()[:-300])
    with pytest.raises(ValueError, match=r"expected a whole arrow file, found .*arrow damaged or cut short"):
        list(read_corpus(folder))
    data.unlink()
    with pytest.raises(FileNotFoundError, match=r"expected data-00000-of-00001.arrow in the dataset saved in"):
        read_corpus(folder)
    (folder / "state.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"expected '_data_files' in .*state.json, found KeyError"):
        read_corpus(folder)


def test_a_dataset_without_rows_is_refused(tmp_path):
    make_dataset([]).save_to_disk(tmp_path / "saved")
    with pytest.raises(FileNotFoundError, match=r"in the folder .*, found none"):
        read_corpus(tmp_path / "saved")
