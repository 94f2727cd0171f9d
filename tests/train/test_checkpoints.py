"""Checkpoints: complete or not there, checked before they are used."""

import json
from pathlib import Path

import pytest
from greffe.train.checkpoints import (
    find_fault,
    latest_complete_checkpoint,
    list_checkpoints,
    partial_folder,
    publish_checkpoint,
    remove_leftovers,
    remove_old_checkpoints,
    remove_skipped_checkpoints,
)


def write(run: Path, step: int, content: bytes = b"weights") -> Path:
    partial = partial_folder(run, step)
    (partial / "inner").mkdir(parents=True)
    (partial / "model.safetensors").write_bytes(content)
    (partial / "inner" / "state.json").write_text("{}")
    return publish_checkpoint(partial, run, step)


def test_published_checkpoints_are_complete_and_in_order(tmp_path: Path) -> None:
    for step in (2, 10, 9):
        assert find_fault(write(tmp_path, step)) is None
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-2", "checkpoint-9", "checkpoint-10"]
    assert latest_complete_checkpoint(tmp_path) == (tmp_path / "checkpoint-10", [])
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"weight"), "has 6 bytes, expected 7"),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(b"Weights"),
            "content of model.safetensors",
        ),
        (lambda folder: (folder / "inner" / "state.json").write_text("{ "), "inner/state.json"),
        (lambda folder: (folder / "manifest.json").unlink(), "no readable manifest.json"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "no readable manifest.json"),
    ],
)
def test_damage_is_found_and_the_one_before_is_taken(damage, fault: str, tmp_path: Path) -> None:
    write(tmp_path, 1)
    damage(write(tmp_path, 2))
    found, skipped = latest_complete_checkpoint(tmp_path)
    assert found == tmp_path / "checkpoint-1"
    (sentence,) = skipped
    assert sentence.startswith("checkpoint-2 was skipped: ")
    assert fault in sentence


def test_a_partial_checkpoint_is_none(tmp_path: Path) -> None:
    partial_folder(tmp_path, 5).mkdir()
    assert latest_complete_checkpoint(tmp_path) == (None, [])
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        write(tmp_path, step)
    remove_old_checkpoints(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-4", "checkpoint-5"}


@pytest.mark.parametrize(("taken", "left"), [(2, {"checkpoint-1", "checkpoint-2"}), (None, set())])
def test_those_after_the_one_that_was_taken_go(taken: int | None, left: set[str], tmp_path: Path) -> None:
    for step in range(1, 5):
        write(tmp_path, step)
    remove_skipped_checkpoints(tmp_path, None if taken is None else tmp_path / f"checkpoint-{taken}")
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_step_that_is_reached_again_replaces_the_old_one(tmp_path: Path) -> None:
    write(tmp_path, 3, b"old")
    write(tmp_path, 3, b"new")
    assert (tmp_path / "checkpoint-3" / "model.safetensors").read_bytes() == b"new"
    assert set(json.loads((tmp_path / "checkpoint-3" / "manifest.json").read_text())) == {
        "model.safetensors",
        "inner/state.json",
    }
