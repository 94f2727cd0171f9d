"""What of a folder is pushed, what is left out, and what is refused before anything is written."""

import os
import pickle
from pathlib import Path

import pytest
from greffe.hub import HubError, LocalHub
from greffe.hub.contents import read_contents


def test_leftovers_are_left_out(files: Path) -> None:
    for name in (".git/config", "__pycache__/x.pyc", "checkpoint-20/optimizer.pt", ".DS_Store", "deep/.hidden"):
        (files / name).parent.mkdir(exist_ok=True)
        (files / name).write_text("x")
    (files / "training_args.bin").write_bytes(pickle.dumps("arguments"))
    (files / "checkpoint-notes.txt").write_text("mine")
    contents = read_contents(files)
    assert [*contents.files] == ["a.txt", "checkpoint-notes.txt", "deep/b.txt"]
    assert contents.left_out == [
        ".DS_Store", ".git/", "__pycache__/", "checkpoint-20/", "deep/.hidden", "training_args.bin",
    ]  # fmt: skip
    assert "training_args.bin" in read_contents(files, allow_pickle=True).files


def test_links_inside_are_followed(files: Path) -> None:
    (files / "link.txt").symlink_to("deep/b.txt")
    assert read_contents(files).files["link.txt"].read_text() == "two"


@pytest.mark.parametrize(
    "target", ["/etc/hostname", "../outside.txt", "../../outside.txt", "nowhere", "deep/../../outside.txt"]
)
def test_links_that_point_out(target: str, files: Path, hub: LocalHub) -> None:
    (files.parent / "outside.txt").write_text("a secret")
    (files / "deep" / "link.txt").symlink_to(target)
    with pytest.raises(
        ValueError, match=r"^expected links inside .*, found deep/link.txt pointing to .*cp --dereference"
    ):
        hub.push(files, "team/name")
    assert not hub.path.exists()


def test_links_to_folders(files: Path, hub: LocalHub) -> None:
    (files / "loop").symlink_to(".")
    with pytest.raises(ValueError, match="found loop, a link to a folder"):
        hub.push(files, "team/name")


def test_pipes_are_not_waited_for(files: Path, hub: LocalHub) -> None:
    os.mkfifo(files / "pipe")
    with pytest.raises(ValueError, match="found pipe, a device or a pipe"):
        hub.push(files, "team/name")


@pytest.mark.parametrize("name", ["nul", "a:b", "back\\slash", "trailing.", "new\nline"])
def test_names_that_other_platforms_refuse(name: str, files: Path, hub: LocalHub) -> None:
    (files / name).write_text("x")
    with pytest.raises(ValueError, match="expected the path of a file inside the repository"):
        hub.push(files, "team/name")
    assert not hub.path.exists()


def test_pickles_need_permission(files: Path, hub: LocalHub) -> None:
    (files / "pytorch_model.bin").write_bytes(b"x")
    (files / "weights.safetensors").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(HubError) as refused:
        hub.push(files, "team/name")
    assert str(refused.value) == (
        "expected weights in .safetensors, found pytorch_model.bin (ends in .bin), weights.safetensors (begins like a "
        "pickle); pickles can run code on whoever loads them: save with save_pretrained, or pass --allow-pickle"
    )
    assert not hub.path.exists()
    assert len(hub.push(files, "team/name", allow_pickle=True).revision.files) == 4


def test_what_is_no_folder(tmp_path: Path, files: Path, hub: LocalHub) -> None:
    (tmp_path / "empty").mkdir()
    for folder, found in (
        (tmp_path / "none", "no such folder"),
        (files / "a.txt", "a file"),
        (tmp_path / "empty", "none"),
    ):
        with pytest.raises(FileNotFoundError, match=f"^expected .* found {found}$"):
            hub.push(folder, "team/name")
