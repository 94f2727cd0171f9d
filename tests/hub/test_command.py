"""`greffe hub` on the command line: what it prints, what it asks, and how it fails."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from greffe.hub import LocalHub
from greffe.train.cli import main


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREFFE_HUB", str(tmp_path / "hub"))


def greffe(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["hub", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def fail(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["hub", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("greffe: error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("greffe: error: ").rstrip("\n")


def test_from_push_to_delete(capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path) -> None:
    assert greffe(capsys, "list").startswith(f"no models in {tmp_path / 'hub'}; ")
    (files / ".hidden").write_text("x")
    pushed = greffe(capsys, "push", files, "team/name", "--tag", "v1", "--message", "the first")
    assert re.fullmatch(r"left out: \.hidden\nteam/name@[0-9a-f]{12}, tagged v1: 2 files, 6 B\n", pushed)
    greffe(capsys, "push", files, "team/name")
    listed = greffe(capsys, "list").splitlines()
    assert re.fullmatch(r"team/name  [0-9a-f]{12}  \d{4}-\d\d-\d\d \d\d:\d\d  6 B   v1", listed[1])
    log = greffe(capsys, "log", "team/name").splitlines()
    assert [line.split()[-2:] for line in log[1:]] == [["Push", "files"], ["the", "first"]]
    shown = greffe(capsys, "show", "team/name@v1")
    assert "names    v1" in shown
    assert "deep/b.txt  3" in shown
    assert "is now team/name@v2" in greffe(capsys, "tag", "team/name", "v2")
    greffe(capsys, "pull", "team/name@v1", tmp_path / "out")
    assert (tmp_path / "out" / "deep" / "b.txt").read_text() == "two"
    assert greffe(capsys, "verify") == "1 models, 2 revisions: all as they were pushed\n"
    greffe(capsys, "delete", "team/name@v2", "--yes")
    assert "its tags: v1" in fail(capsys, "show", "team/name@v2")
    assert "pass --yes" in fail(capsys, "delete", "team/name")
    assert greffe(capsys, "delete", "team/name", "--yes") == "team/name is deleted\n"
    assert "found none of this name" in fail(capsys, "log", "team/name")


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_delete_asks(answer: str, gone: bool, files: Path, tmp_path: Path) -> None:
    """With a terminal that answers."""
    hub = LocalHub(tmp_path / "hub")
    hub.push(files, "team/name")
    own, other = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "greffe.train.cli", "hub", "delete", "team/name"],
        stdin=other, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    os.write(own, answer.encode())
    output, errors = process.communicate(timeout=30)
    os.close(own)
    os.close(other)
    assert "Delete team/name with 1 revisions, 6 B? This cannot be undone. [y/N]" in output
    assert (process.returncode, "nothing was deleted" in errors) == ((0, False) if gone else (1, True))
    assert hub.list() == ([] if gone else ["team/name"])


def test_verify_fails_when_something_is_damaged(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    hub = LocalHub(tmp_path / "hub")
    revision = hub.push(files, "team/name").revision
    hub.repository("team/name").blob(revision.files["a.txt"]).write_text("eno")
    assert main(["hub", "verify"]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"team/name@{revision.id[:12]} a.txt: expected 3 bytes of SHA-256")
    assert "found 1 things damaged; they are named above" in captured.err


def test_one_damaged_model_hides_no_others(capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path) -> None:
    hub = LocalHub(tmp_path / "hub")
    for name in ("team/name", "team/other"):
        hub.push(files, name)
    (hub.repository("team/name").folder / "commits" / f"{hub.show('team/name').id}.json").write_text("{")
    lines = greffe(capsys, "list").splitlines()
    assert lines[1].split(maxsplit=2) == ["team/name", "damaged", "see `greffe hub verify team/name`"]
    assert lines[2].startswith("team/other")


def test_env(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "a place with 'quotes'; rm -rf"
    lines = greffe(capsys, "env", "--hub", place)
    done = subprocess.run(["sh", "-c", f"{lines}\nenv"], capture_output=True, text=True, check=True)
    assert f"HF_HUB_CACHE={place}\n" in done.stdout
    assert "HF_HUB_OFFLINE=1\n" in done.stdout
    served = greffe(capsys, "env", "--server", "http://127.0.0.1:8421/")
    assert shlex.split(served) == ["export", "HF_ENDPOINT=http://127.0.0.1:8421", "export", "HF_HUB_OFFLINE=0"]


def test_hostile_names_write_nothing(capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for name in ("../escape", "/abs/olute", "C:/x", "team/na\0me", "nul/x", "team/" + "x" * 200, "team/name@v1"):
        assert fail(capsys, "push", files, name).startswith("expected a name of the form organisation/name, found")
    assert fail(capsys, "push", files, "team/name", "--tag", "../v1").startswith("expected a tag such as v1")
    assert sorted(tmp_path.rglob("*")) == before


def test_messages_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    greffe(capsys, "push", files, "team/name", "--message", "fine \x1b[2J\x07 and more")
    for action in ("log", "show"):
        output = greffe(capsys, action, "team/name")
        assert "\x1b" not in output
        assert "\\x1b[2J\\x07" in output


def test_models_by_name_in_other_commands(
    capsys: pytest.CaptureFixture[str], model_folder: Path, tmp_path: Path
) -> None:
    greffe(capsys, "push", model_folder, "team/tiny", "--tag", "v1")
    assert main(["params", "--model", "team/tiny@v1"]) == 0
    by_name = capsys.readouterr().out
    assert main(["params", "--model", str(model_folder)]) == 0
    assert capsys.readouterr().out == by_name
    assert main(["params", "--model", "team/none"]) == 1
    assert "or of this name in the hub" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--token", "x", "--insecure-writes"], "expected --token or --insecure-writes, found both"),
        (["--token", "two words"], "expected a token of printable ASCII characters without spaces, found another"),
        (["--port", "70000"], "expected a port from 0 to 65535, found 70000"),
        (["--host", "192.0.2.1"], "expected to listen at 192.0.2.1:8421, found"),
    ],
)
def test_serve_says_what_is_wrong(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(capsys, "serve", *options).startswith(message)


def test_every_action_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("push", "list", "log", "show", "pull", "tag", "delete", "verify", "env", "serve"):
        with pytest.raises(SystemExit) as done:
            main(["hub", action, "--help"])
        assert done.value.code == 0
        assert f"usage: greffe hub {action}" in capsys.readouterr().out
