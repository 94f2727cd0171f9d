"""The hub as a directory: revisions, tags, contents stored once, and nothing half-done."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from environments import run_python
from greffe.hub import HubError, LocalHub, default_hub, resolve_model
from greffe.hub.names import is_commit
from greffe.hub.revisions import Revision, hash_file


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything in a folder: contents of files, targets of links."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
        if ".locks" not in path.parts
    }


def test_push_log_show_pull(hub: LocalHub, files: Path, tmp_path: Path) -> None:
    first = hub.push(files, "team/name", tag="v1", message="the first").revision
    (files / "a.txt").write_text("three")
    (files / "deep" / "b.txt").unlink()
    second = hub.push(files, "team/name").revision
    assert hub.list() == ["team/name"]
    assert [revision.id for revision in hub.log("team/name")] == [second.id, first.id]
    assert is_commit(first.id)
    assert (first.parent, second.parent) == (None, first.id)
    assert (first.message, second.message) == ("the first", "Push files")
    for name in ("v1", first.id, first.id[:7]):
        assert hub.show("team/name", name) == first
    assert [*hub.show("team/name").files] == ["a.txt"]
    hub.pull("team/name", tmp_path / "out", "v1")
    assert tree(tmp_path / "out") == {"a.txt": b"one", "deep": None, "deep/b.txt": b"two"}
    assert hub.verify() == []


def test_unchanged_files_are_stored_once(hub: LocalHub, files: Path) -> None:
    (files / "copy.txt").write_text("one")  # the same content under two names
    hub.push(files, "team/name")
    blobs = hub.path / "models--team--name" / "blobs"
    before = {blob.name: blob.stat() for blob in blobs.iterdir()}
    assert len(before) == 2
    (files / "new.txt").write_text("new")
    hub.push(files, "team/name")
    after = {blob.name: blob.stat() for blob in blobs.iterdir()}
    assert len(after) == 3
    for name, stat in before.items():
        assert (after[name].st_ino, after[name].st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)


def test_the_same_folder_makes_a_new_revision(hub: LocalHub, files: Path) -> None:
    assert hub.push(files, "team/name").revision.id != hub.push(files, "team/name").revision.id
    assert len(hub.log("team/name")) == 2


def test_names_of_revisions_are_their_content(hub: LocalHub, files: Path) -> None:
    revision = hub.push(files, "team/name", message="m").revision
    record = json.loads((hub.path / "models--team--name" / "commits" / f"{revision.id}.json").read_text())
    assert revision.expected_id == revision.id
    for change in ({"message": "n"}, {"parent": "0" * 40}, {"date": "2000"}, {"files": {}}):
        other = {**{name: getattr(revision, name) for name in ("id", "parent", "date", "message", "files")}, **change}
        assert Revision(**other).expected_id != revision.id
    assert record["files"]["a.txt"] == {
        "size": 3,
        "sha256": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
        "oid": "43dd47ea691c90a5fa7827892c70241913351963",  # printf one | git hash-object --stdin
    }


def test_hashes_are_those_of_git_and_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3_000_000))
    found = hash_file(tmp_path / "file")
    sha256 = subprocess.run(
        ["sha256sum", tmp_path / "file"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    git = subprocess.run(
        ["git", "hash-object", tmp_path / "file"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert (found.size, found.sha256, found.oid) == (3_000_000, sha256, git)


def test_tags(hub: LocalHub, files: Path) -> None:
    first = hub.push(files, "team/name").revision
    hub.push(files, "team/name")
    assert hub.tag("team/name", "v1", first.id[:10]) == first.id
    assert hub.snapshot("team/name", "v1").name == first.id
    with pytest.raises(HubError, match=r"^expected a new tag for team/name, found v1 at"):
        hub.tag("team/name", "v1")
    before = tree(hub.path)
    with pytest.raises(HubError, match=r"^expected a new tag for team/name, found v1 at"):
        hub.push(files, "team/name", tag="v1")
    assert tree(hub.path) == before
    for name in ("main", "a/b", "../x", "0" * 40):
        with pytest.raises((HubError, ValueError), match=r"^expected a"):
            hub.tag("team/name", name)
    hub.delete_reference("team/name", "v1")
    with pytest.raises(HubError, match="its tags: none"):
        hub.show("team/name", "v1")
    assert len(hub.log("team/name")) == 2
    with pytest.raises(HubError, match="found its branch main, which stays"):
        hub.delete_reference("team/name", "main")


def test_what_is_not_there(hub: LocalHub, files: Path) -> None:
    assert hub.list() == []
    with pytest.raises(
        HubError, match=r"^expected the repository team/name in .*, found none of this name; `greffe hub list`"
    ):
        hub.show("team/name")
    hub.push(files, "team/name", tag="v1")
    for revision in ("v2", "abc1234", "0" * 40, "../../x", "", "v1\0"):
        with pytest.raises(HubError, match=r"^expected a revision of team/name, found .*; its tags: v1;"):
            hub.show("team/name", revision)
    hub.delete("team/name")
    assert hub.list() == []
    assert not [*hub.path.glob("models--*")]
    with pytest.raises(HubError, match="found none of this name"):
        hub.delete("team/name")


def test_names_that_differ_by_case_only(hub: LocalHub, files: Path) -> None:
    hub.push(files, "team/name")
    with pytest.raises(HubError, match="found Team/Name beside team/name; macOS and Windows would mix them up"):
        hub.push(files, "Team/Name")
    assert hub.list() == ["team/name"]


def test_pull_refuses_damaged_content_and_full_folders(hub: LocalHub, files: Path, tmp_path: Path) -> None:
    revision = hub.push(files, "team/name").revision
    for place in (files, files / "a.txt"):
        with pytest.raises(FileExistsError, match=f"^expected a new or empty folder, found {place} there already"):
            hub.pull("team/name", place)
    blob = hub.repository("team/name").blob(revision.files["a.txt"])
    blob.write_text("eno")
    with pytest.raises(ValueError, match=r"^expected a.txt of team/name@.* as it was pushed, found it damaged"):
        hub.pull("team/name", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_symbolic_links(hub: LocalHub, files: Path, tmp_path: Path) -> None:
    """Where the system has none, snapshots hold second names of the blobs: still stored once, still a cache."""
    code = (
        "import json; from greffe.hub import LocalHub; from huggingface_hub import scan_cache_dir\n"
        f"hub = LocalHub({str(hub.path)!r})\n"
        f"for _ in range(2): hub.push({str(files)!r}, 'team/name')\n"
        "print(json.dumps([*map(str, scan_cache_dir(hub.path).warnings), *hub.verify()]))"
    )
    assert run_python(sys.executable, code, tmp_path, HF_HUB_DISABLE_SYMLINKS="1") == []
    snapshot = hub.snapshot("team/name")
    assert not (snapshot / "a.txt").is_symlink()
    assert (snapshot / "deep" / "b.txt").read_text() == "two"
    assert (snapshot / "a.txt").stat().st_nlink == 3  # the blob and two snapshots


def test_a_cache_that_a_client_filled_is_kept(hub: LocalHub, files: Path) -> None:
    """The directory may hold what huggingface_hub downloaded: not shown, not cleaned away."""
    folder = hub.path / "models--team--name"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / "theirs").write_text("theirs")
    (folder / "snapshots" / ("f" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("f" * 40) / "x.txt").symlink_to("../../blobs/theirs")
    (folder / "refs").mkdir()
    (folder / "refs" / "other").write_text("f" * 40)
    assert hub.list() == []
    hub.push(files, "team/name")
    hub.push(files, "team/name")
    assert hub.list() == ["team/name"]
    assert (folder / "snapshots" / ("f" * 40) / "x.txt").read_text() == "theirs"


def test_a_folder_that_cannot_be_written(files: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HubError, match=r"^expected a folder that can be written in .*/file/hub, found Not a directory"):
        LocalHub(tmp_path / "file" / "hub").push(files, "team/name")
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_read_only_disk(hub: LocalHub, files: Path, tmp_path: Path) -> None:
    """Where the system lets us mount one; permissions do not bind the superuser."""
    hub.push(files, "team/name", tag="v1")
    before = tree(hub.path)
    code = f"""
import subprocess, sys, json
mounted = subprocess.run("mount --bind {hub.path} {hub.path} && mount -o remount,ro,bind {hub.path}", shell=True)
if mounted.returncode: print(json.dumps(None)); sys.exit()
from greffe.hub import LocalHub, HubError
messages = []
hub = LocalHub({str(hub.path)!r})
def push(): hub.push({str(files)!r}, "team/name")
for attempt in (push, lambda: hub.tag("team/name", "v2"), lambda: hub.delete("team/name")):
    try: attempt()
    except HubError as error: messages.append(str(error))
hub.pull("team/name", {str(tmp_path / "out")!r})
print(json.dumps(messages))
"""
    try:  # a namespace of its own: the mount is gone with the process
        done = subprocess.run(
            ["unshare", "--mount", "--map-root-user", sys.executable, "-c", code], capture_output=True, text=True
        )
        messages = json.loads(done.stdout.splitlines()[-1]) if done.stdout else None
    except FileNotFoundError:
        messages = None
    if messages is None:
        pytest.skip("this system does not let tests mount")
    assert len(messages) == 3
    for message in messages:
        assert message.startswith(
            f"expected a folder that can be written in {hub.path}, found Read-only file system at"
        )
        assert message.endswith("; the hub is as it was before")
    assert tree(hub.path) == before
    assert tree(tmp_path / "out")["a.txt"] == b"one"


def test_a_full_disk(hub: LocalHub, files: Path, tmp_path: Path) -> None:
    """The limit of a file's size fails a write half-way, as a full disk does."""
    hub.push(files, "team/name", tag="v1")
    (files / "large.txt").write_bytes(b"x" * 500_000)
    before = tree(hub.path)
    code = f"""
import json, resource, signal
from greffe.hub import LocalHub, HubError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
messages = []
for repo_id, limit in (("team/name", 100_000), ("team/name", 10), ("team/new", 100_000)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try: LocalHub({str(hub.path)!r}).push({str(files)!r}, repo_id)
    except HubError as error: messages.append(str(error))
print(json.dumps(messages))
"""
    messages = run_python(sys.executable, code, tmp_path)
    expected = f"expected room in {hub.path}, found the disk full (File too large); free some space and try again"
    assert messages == [f"{expected}; the hub is as it was before"] * 3
    assert tree(hub.path) == before
    assert hub.verify() == []
    assert hub.push(files, "team/name").revision.parent == hub.show("team/name", "v1").id


def test_two_threads_push_to_one_repository(hub: LocalHub, files: Path) -> None:
    errors: list[BaseException] = []

    def push(number: int) -> None:
        try:
            hub.push(files, "team/name", message=f"push {number}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=push, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(revision.message for revision in hub.log("team/name")) == [f"push {number}" for number in range(6)]


def test_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GREFFE_HUB", str(tmp_path / "mine"))
    assert default_hub() == tmp_path / "mine"
    monkeypatch.delenv("GREFFE_HUB")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_hub() == tmp_path / "data" / "greffe" / "hub"


def test_a_model_is_a_folder_or_a_name(
    hub: LocalHub, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = hub.push(files, "team/name", tag="v1").revision
    monkeypatch.chdir(tmp_path)
    assert resolve_model("team/name@v1", hub.path) == hub.snapshot("team/name", revision.id)
    assert resolve_model(files, hub.path) == files
    (tmp_path / "team" / "name").mkdir(parents=True)
    assert resolve_model("team/name", hub.path) == Path("team/name")  # a folder comes first
    with pytest.raises(
        HubError, match=r"^expected a model in the folder a/b, or of this name in the hub .*, found neither"
    ):
        resolve_model("a/b", hub.path)
    assert resolve_model("no/such/folder", hub.path) == Path("no/such/folder")
