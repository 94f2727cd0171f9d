"""Killed at any moment, and two at once: earlier revisions stay, nothing is lost, the next push cleans up."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from environments import run_python
from greffe.hub import LocalHub
from huggingface_hub import scan_cache_dir

# Forks a process for each operation on files that a push makes, kills it there with SIGKILL, and looks at the hub:
# forking costs a few milliseconds, so that every operation has its turn.
KILL_EVERYWHERE = """
import json, os, shutil, signal, sys
from pathlib import Path
from greffe.hub import LocalHub
from huggingface_hub import scan_cache_dir

path, folder, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
EVENTS = {"open", "os.rename", "os.mkdir", "os.symlink", "os.link", "os.remove", "os.rmdir", "shutil.rmtree"}

def push(message, kill_at=None):
    process = os.fork()
    if process == 0:
        seen = 0
        def hook(event, arguments):
            nonlocal seen
            if event in EVENTS and str(path) in str(arguments):
                seen += 1
                if seen == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        try:
            LocalHub(path).push(folder, name, message=message, tag=message)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

def leftovers(repository):
    known = {revision.id for commit in repository.references().values() for revision in repository.history(commit)}
    used = {file.sha256 for commit in known for file in repository.revision(commit).files.values()}
    for kind, wanted in (("blobs", used), ("snapshots", known), ("commits", {f"{commit}.json" for commit in known})):
        yield from {entry.name for entry in (repository.folder / kind).iterdir()} ^ wanted
    yield from (entry.name for entry in (path / ".locks/greffe/staging").iterdir() if entry.suffix != ".lock")

hub, problems, kill_at = LocalHub(path), [], 0
kept = hub.push(folder, "team/name", tag="kept").revision
shutil.copytree(path, path.with_name("before"), symlinks=True)
while True:
    kill_at += 1
    shutil.rmtree(path)
    shutil.copytree(path.with_name("before"), path, symlinks=True)
    (folder / "a.txt").write_text(f"content {kill_at}")
    code = push("killed", kill_at)
    if code not in (0, -signal.SIGKILL):
        problems.append(f"{kill_at}: the push failed with {code}")
    if kept.id not in [revision.id for revision in hub.log("team/name")] or hub.show("team/name", "kept") != kept:
        problems.append(f"{kill_at}: the revision before is gone")
    problems += [f"{kill_at}: {line}" for line in hub.verify()]
    problems += [f"{kill_at}: {warning}" for warning in scan_cache_dir(path).warnings]
    if push("after") != 0:
        problems.append(f"{kill_at}: the push after the kill failed")
    problems += [f"{kill_at}: left behind: {leftover}" for leftover in leftovers(hub.repository(name))]
    if code == 0:
        break
print(json.dumps({"problems": problems, "kills": kill_at - 1}))
"""


@pytest.mark.parametrize("name", ["team/name", "team/new"])
def test_killed_at_every_operation_on_files(name: str, hub: LocalHub, files: Path, tmp_path: Path) -> None:
    """In a push to a repository that is there, and in one that makes the repository."""
    (tmp_path / "code.py").write_text(KILL_EVERYWHERE)
    code = f"import runpy, sys; sys.argv[1:] = {[str(hub.path), str(files), name]!r}; runpy.run_path('code.py')"
    found = run_python(sys.executable, code, tmp_path)
    assert found["problems"] == []
    assert found["kills"] > 30  # they did happen, at as many places


# Pushes again and again, with other contents each time, and says when it begins and after each push.
PUSHER = """
import sys
from pathlib import Path
from greffe.hub import LocalHub
hub, folder, name, count = LocalHub(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
folder.mkdir(exist_ok=True)
hub.list()
print("ready", flush=True)
for number in range(count):
    for file in range(4):
        (folder / f"{file}.txt").write_text(f"{name} {number} {file}" * 20_000)
    hub.push(folder, "team/name", message=f"{name} {number}")
    print("pushed", flush=True)
"""


def start_pusher(hub: LocalHub, folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PUSHER, hub.path, folder, name, str(count)]
    process = subprocess.Popen(command, cwd=folder.parent, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_killed_at_random(hub: LocalHub, tmp_path: Path) -> None:
    draw = random.Random(0)
    known: list[str] = []
    for attempt in range(8):
        process = start_pusher(hub, tmp_path / "files", f"attempt {attempt}", 10_000)
        for _ in range(attempt % 3):  # the first push of a process, or a later one
            assert process.stdout.readline() == "pushed\n"
        time.sleep(draw.uniform(0.0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        if hub.list():
            log = [revision.id for revision in hub.log("team/name")]
            assert log[len(log) - len(known) :] == known  # every revision that was there is there
            assert hub.verify() == []
            assert scan_cache_dir(hub.path).warnings == []
            known = log
    assert len(known) >= 7
    hub.push(tmp_path / "files", "team/name")
    assert [entry for entry in (hub.path / ".locks" / "greffe" / "staging").iterdir() if entry.suffix != ".lock"] == []


def test_two_pushers_and_a_reader(hub: LocalHub, tmp_path: Path) -> None:
    """Both push ten revisions at once; whoever reads meanwhile sees files of one push, never of two."""
    pushers = [start_pusher(hub, tmp_path / name, name, 10) for name in ("left", "right")]
    seen = 0
    while any(process.poll() is None for process in pushers):
        if hub.list():
            snapshot = hub.snapshot("team/name")
            texts = [(snapshot / f"{file}.txt").read_text() for file in range(4)]
            name, number = texts[0].split()[:2]
            assert texts == [f"{name} {number} {file}" * 20_000 for file in range(4)]
            seen += 1
    assert [process.returncode for process in pushers] == [0, 0]
    assert seen
    messages = [revision.message for revision in hub.log("team/name")]
    assert sorted(messages) == sorted(f"{name} {number}" for name in ("left", "right") for number in range(10))
    assert hub.verify() == []
