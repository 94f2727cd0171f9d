"""A folder is written whole or not at all."""

from __future__ import annotations

import os

import pytest
from greffe.tokenization.output_folder import check_output_folder, write_folder


def test_a_new_and_an_empty_folder_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "parent/new"):
        write_folder(tmp_path / name, lambda folder: (folder / "a").write_text("a"))
        assert (tmp_path / name / "a").read_text() == "a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "parent"]


def test_the_folder_has_the_usual_rights(tmp_path):
    write_folder(tmp_path / "new", lambda folder: None)
    (tmp_path / "plain").mkdir()
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "plain").st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(tmp_path, error):
    def fail(folder):
        (folder / "half").write_text("a")
        raise error

    with pytest.raises(error):
        write_folder(tmp_path / "new", fail)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(tmp_path):
    for name in "edcba":
        (tmp_path / name).write_text("mine")
    for attempt in (check_output_folder, lambda folder: write_folder(folder, lambda temporary: None)):
        with pytest.raises(FileExistsError, match=r"new or empty folder, found a, b, c and 2 more in .*--output"):
            attempt(tmp_path)
        with pytest.raises(FileExistsError, match=r"new or empty folder, found the file .*a"):
            attempt(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == list("abcde")


def test_a_folder_filled_meanwhile_is_kept(tmp_path):
    def fill_final(folder):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "theirs").write_text("a")

    with pytest.raises(OSError, match="not empty"):
        write_folder(tmp_path / "new", fill_final)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "theirs"]
