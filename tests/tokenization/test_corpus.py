"""Which files are read, in which order, and how far the reading is."""

from __future__ import annotations

import gzip
import os
import tracemalloc

import pytest
from greffe.tokenization import read_corpus


def write(folder, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_folder_gives_its_known_files_sorted_and_no_hidden_ones(tmp_path):
    write(tmp_path, b_txt="2", a_txt="1", c__d_TXT="3", c__a_jsonl='{"text": "2.5"}', README_md="no", x_py="no")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "old.txt").write_text("no")
    assert list(read_corpus(tmp_path)) == ["1", "2", "2.5", "3"]


def test_globs_are_sorted_and_arguments_keep_their_order(tmp_path):
    write(tmp_path, a2_txt="a2", a1_txt="a1", b_txt="b")
    assert list(read_corpus([str(tmp_path / "b.txt"), str(tmp_path / "a*.txt")])) == ["b", "a1", "a2"]


def test_a_file_reached_twice_is_read_once_where_it_came_first(tmp_path):
    write(tmp_path, a_txt="a", b_txt="b", c_txt="c")
    assert list(read_corpus([tmp_path / "b.txt", tmp_path, tmp_path / "*.txt"])) == ["b", "a", "c"]


def test_a_recursive_glob_gives_the_files_that_match_and_not_their_folders(tmp_path):
    write(tmp_path, a_txt="a", sub__b_txt="b", sub__c_jsonl="not JSON")
    assert list(read_corpus(str(tmp_path / "**" / "*.txt"))) == ["a", "b"]
    with pytest.raises(ValueError, match="broken JSON"):
        list(read_corpus(str(tmp_path / "**")))


def test_a_glob_that_matches_a_folder_gives_what_is_in_it(tmp_path):
    write(tmp_path, part1__a_txt="a", part2__b_txt="b")
    assert list(read_corpus(str(tmp_path / "part*"))) == ["a", "b"]


def test_a_name_with_brackets_is_a_file_before_it_is_a_glob(tmp_path):
    (tmp_path / "tome[1].txt").write_text("un")
    assert list(read_corpus(str(tmp_path / "tome[1].txt"))) == ["un"]


def test_every_pass_is_the_same(tmp_path):
    write(tmp_path, a_txt="1\n2\n", b_txt="3\n")
    corpus = read_corpus(tmp_path)
    assert list(corpus) == list(corpus) == ["1", "2", "3"]


def test_bytes_read_are_those_of_the_disk_and_grow_to_the_total(tmp_path):
    lines = "\n".join(os.urandom(200).hex() for _ in range(5000))
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(lines)
    (tmp_path / "b.txt").write_text(lines)
    corpus = read_corpus(tmp_path)
    assert corpus.total_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    positions = [corpus.bytes_read for _ in corpus]
    first, half = positions[100], positions[len(positions) // 2 - 1]
    assert positions == sorted(positions)
    assert 0 < first < corpus.total_bytes * 0.2
    assert half == (tmp_path / "a.txt.gz").stat().st_size
    assert positions[-1] == corpus.bytes_read == corpus.total_bytes


def test_reading_takes_constant_memory(tmp_path):
    with gzip.open(tmp_path / "large.txt.gz", "wb") as file:
        for _ in range(60):
            file.write((b"un document " * 200 + b"\n") * 100)  # 14 MB in all
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_corpus(tmp_path)) == 6000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"found .*none\.txt: no such file"):
        read_corpus(tmp_path / "none.txt")


def test_glob_without_match(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"found .*\*\.txt: no file that matches it"):
        read_corpus(str(tmp_path / "*.txt"))


def test_no_path():
    with pytest.raises(ValueError, match="found no path"):
        read_corpus([])


@pytest.mark.parametrize("name", ["a.md", "a", "a.gz", "a.parquet.gz", "a.txt.zip"])
def test_unknown_suffix(tmp_path, name):
    (tmp_path / name).write_text("text")
    with pytest.raises(ValueError, match=rf"expected a file in \.txt, \.jsonl, \.csv .* or \.parquet, found .*{name}"):
        read_corpus(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"in the folder .*, found none"):
        read_corpus(tmp_path)


def test_a_corpus_of_blank_text_is_refused(tmp_path):
    write(tmp_path, a_txt="\n  \n\t\r\n", b_jsonl='{"text": ""}\n', c_csv="text\n\n", d_txt="")
    with pytest.raises(ValueError, match=r"expected at least one document, found only blank text in 4 files, .*a.txt"):
        list(read_corpus(tmp_path))


@pytest.mark.parametrize(("option", "value"), [("separator", "paragraph"), ("errors", "ignore")])
def test_misspelt_options(tmp_path, option, value):
    write(tmp_path, a_txt="a")
    with pytest.raises(ValueError, match=f"expected {option} among .* found '{value}'"):
        read_corpus(tmp_path, **{option: value})
