"""A commit is read the same however its bytes arrive, and never held in memory whole."""

import base64
import json
import os
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from greffe.hub.commit_payload import LONGEST_LINE, AddedFile, AddedUpload, CommitPayload, Deleted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def line(key: str, **value: Any) -> bytes:
    return json.dumps({"key": key, "value": value}).encode() + b"\n"


def file_line(path: str, content: bytes, **more: Any) -> bytes:
    return line("file", **{"content": base64.b64encode(content).decode(), "path": path, "encoding": "base64", **more})


# The words that the reader looks for, in places where they mean nothing.
CONTENTS = {"a.txt": b'"content": "x', "empty": b"", "content": b"\xff\n", "z/é": os.urandom(99)}
BODY = (
    line("header", summary='"content": "x"\n', description="content", parentCommit="0" * 40)
    + b"".join(file_line(path, content) for path, content in CONTENTS.items())
    + line("lfsFile", path="large", algo="sha256", oid="a" * 64, size=5)
    + line("deletedFolder", path="old/")
    + line("deletedFile", path="gone")
)


def read(area: Path, pieces: list[bytes]) -> CommitPayload:
    payload = CommitPayload(area)
    for piece in pieces:
        payload.feed(piece)
    payload.close()
    return payload


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_the_same_however_it_arrives(tmp_path: Path, cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(BODY)]
    payload = read(tmp_path, [BODY[start:end] for start, end in pairwise(ends)])
    assert payload.message == '"content": "x"\n\n\ncontent'
    assert payload.parent == "0" * 40
    added = {operation.path: operation.content for operation in payload.operations if isinstance(operation, AddedFile)}
    assert {path: staged.source.read_bytes() for path, staged in added.items()} == CONTENTS
    assert payload.operations[-3:] == [AddedUpload("large", "a" * 64), Deleted("old", True), Deleted("gone", False)]


def test_one_byte_at_a_time_and_without_a_last_newline(tmp_path: Path) -> None:
    whole = read(tmp_path, [BODY])
    bytewise = read(tmp_path, [BODY[i : i + 1] for i in range(len(BODY) - 1)])
    assert [operation.path for operation in bytewise.operations] == [operation.path for operation in whole.operations]


def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    piece = base64.b64encode(os.urandom(3 << 18))
    tracemalloc.start()
    payload = CommitPayload(tmp_path)
    payload.feed(b'{"key": "file", "value": {"content": "')
    for _ in range(64):
        payload.feed(piece)
    payload.feed(b'", "path": "large", "encoding": "base64"}}\n')
    payload.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (operation,) = payload.operations
    assert operation.content.stored.size == 64 * (3 << 18)
    assert peak < 12 << 20  # of 48 MiB


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (file_line("../a", b"x"), "expected the path of a file inside the repository"),
        (file_line("/a", b"x"), "expected the path of a file inside the repository"),
        (line("deletedFolder", path="../"), "expected the path of a file inside the repository"),
        (file_line("a", b"x", encoding="utf-8"), "expected the content of a in base64, found 'utf-8'"),
        (line("file", content="%%%%", path="a", encoding="base64"), "expected the content of a file in base64"),
        (b'{"key": "file", "value": {"content": "AAAA', "expected a whole commit, found that it ends inside a file"),
        (line("lfsFile", path="a", algo="md5", oid="a" * 64), "expected the SHA-256 of a"),
        (line("lfsFile", path="a", algo="sha256", oid="../../x"), "expected the SHA-256 of a"),
        (line("rename", path="a"), "expected file, lfsFile, deletedFile or deletedFolder in a commit, found 'rename'"),
        (b"no JSON\n", "expected an operation of a commit on each line, found b'no JSON'"),
        (b"[]\n", "expected an operation of a commit on each line"),
        (b'{"key": "file"}\n', "expected an operation of a commit on each line"),
        (b'{"key": "file", "value": {"path": 3}}\n', "expected the path of a file inside the repository, found a int"),
        (b"x" * (LONGEST_LINE + 2), "expected lines of at most 1,048,576 bytes in a commit"),
    ],
)
def test_what_is_no_commit(body: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared below
        read(tmp_path, [body])
    assert str(refused.value).startswith(message)
