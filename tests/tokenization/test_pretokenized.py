"""The experiment's files are read as they are, or refused with the place."""

from __future__ import annotations

import pytest
from greffe.tokenization import read_dictionary, read_pretokenized


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dict.txt").write_text("▁un 1\n▁livre 7\ns 1\n\u00a0 1\n\u2028 1\n", encoding="utf-8")
    (tmp_path / "train.review.spm").write_text("▁un ▁livre s\n▁un \u00a0 🎉 s\r\n\n", encoding="utf-8")
    (tmp_path / "train.label").write_text("1\n0\n1\n")
    return tmp_path


def test_dictionary(folder):
    assert read_dictionary(folder / "dict.txt") == {
        **{"<sos>": 0, "<pad>": 1, "<eos>": 2, "<oov>": 3},
        **{"▁un": 4, "▁livre": 5, "s": 6, "\u00a0": 7, "\u2028": 8},
    }


def test_reviews(folder):
    reviews = read_pretokenized(folder / "train", folder / "dict.txt")
    assert reviews.input_ids == [[0, 4, 5, 6], [0, 4, 7, 3, 6], [0]]
    assert reviews.labels == [1, 0, 1]
    assert reviews.texts == ["un livres", "un\u00a0🎉s", ""]
    vocabulary = read_dictionary(folder / "dict.txt")
    plain = read_pretokenized(str(folder / "train"), vocabulary, add_special_tokens=False)
    assert plain.input_ids == [[4, 5, 6], [4, 7, 3, 6], []]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.label", "1\n0\n", r"found 3 reviews in .*train.review.spm and 2 labels in .*train.label"),
        ("train.label", "1\npos\n1\n", r"expected a class number \(0, 1, …\) in .*train.label, line 2, found 'pos'"),
        ("train.label", "1\n-1\n1\n", r"line 2, found '-1'"),
        ("train.label", "1\n\n1\n", r"line 2, found ''"),
        ("dict.txt", "▁un 1\n▁livre\n", r"a space and a count in .*dict.txt, line 2, found '▁livre'"),
        ("dict.txt", "▁un 1\ns 1\n▁un 1\n", r"expected each piece once in .*dict.txt, found '▁un' again on line 3"),
        ("dict.txt", "<pad> 1\n", r"expected each piece once in .*, found '<pad>' again on line 1"),
        ("dict.txt", "", r"expected a piece a line in .*dict.txt, found an empty file"),
    ],
)
def test_refused(folder, name, content, message):
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pretokenized(folder / "train", folder / "dict.txt")


def test_undecodable(folder):
    (folder / "dict.txt").write_bytes(b"a 1\n\xe9 1\n")
    with pytest.raises(ValueError, match=r"expected UTF-8 in .*dict.txt, found byte 0xe9 at position 4; give"):
        read_dictionary(folder / "dict.txt")


def test_no_reviews(folder):
    (folder / "train.review.spm").write_text("")
    (folder / "train.label").write_text("")
    with pytest.raises(ValueError, match=r"expected at least one review, found none"):
        read_pretokenized(folder / "train", folder / "dict.txt")


@pytest.mark.parametrize("name", ["train.review.spm", "train.label", "dict.txt"])
def test_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"expected the file .*{name}, found none"):
        read_pretokenized(folder / "train", folder / "dict.txt")
