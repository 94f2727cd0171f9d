"""Damage of every kind is found and named; a sound hub has none."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from greffe.hub import LocalHub
from greffe.hub.repository import Repository


def flip(repository: Repository) -> None:
    blob = repository.blob(repository.revision().files["a.txt"])
    content = bytearray(blob.read_bytes())
    content[0] ^= 1
    blob.write_bytes(content)


def edit_record(repository: Repository) -> None:
    record = repository.folder / "commits" / f"{repository.resolve('v1')}.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "message": "another"}))


def redirect(repository: Repository) -> None:
    link = repository.snapshot() / "a.txt"
    link.unlink()
    link.symlink_to("deep/b.txt")


DAMAGE: dict[str, tuple[Callable[[Repository], object], str]] = {
    "a bit": (flip, "{new} a.txt: expected 5 bytes of SHA-256"),
    "cut": (lambda r: os.truncate(r.blob(r.revision().files["a.txt"]), 2), "{new} a.txt: expected 5 bytes of SHA-256"),
    "gone": (lambda r: r.blob(r.revision().files["a.txt"]).unlink(), "{new} a.txt: expected 5 bytes in"),
    "shared": (
        lambda r: r.blob(r.revision().files["deep/b.txt"]).write_text("TWO"),
        "deep/b.txt (and 1 more): expected 3",
    ),
    "link gone": (lambda r: (r.snapshot() / "a.txt").unlink(), "{new} a.txt: expected"),
    "link elsewhere": (redirect, "{new} a.txt: expected a link to"),
    "record": (edit_record, "{old}: expected a record that hashes to this name, found"),
    "record gone": (lambda r: (r.folder / "commits" / f"{r.resolve('v1')}.json").unlink(), "{old}: "),
    "record no JSON": (
        lambda r: (r.folder / "commits" / f"{r.resolve()}.json").write_text("{"),
        "{new}: expected the record",
    ),
    "tag": (
        lambda r: (r.folder / "refs" / "v1").write_text("nowhere"),
        "team/name@v1: expected the name of a revision",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(kind: str, hub: LocalHub, files: Path) -> None:
    old = hub.push(files, "team/name", tag="v1").revision
    (files / "a.txt").write_text("three")
    new = hub.push(files, "team/name").revision
    hub.push(files, "team/sound")
    assert hub.verify() == []
    damage, expected = DAMAGE[kind]
    damage(hub.repository("team/name"))
    found = hub.verify()
    expected = expected.format(old=f"team/name@{old.id[:12]}", new=f"team/name@{new.id[:12]}")
    assert any(expected in line for line in found), found
    assert all(line.startswith("team/name@") for line in found)
    assert hub.verify("team/sound") == []
