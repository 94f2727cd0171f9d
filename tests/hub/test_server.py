"""The server, a real process on the loopback address, with the real clients of the Hub, which have no Greffe."""

import base64
import json
import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_server import TOKEN, Server

CLIENT = """
import importlib.util, sys
assert importlib.util.find_spec("greffe") is None
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    BadRequestError, EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
)
api = HfApi()
def error(call):
    try: call()
    except Exception as found: return [type(found).__name__, str(found)]
    return ["nothing", ""]
"""


def test_from_create_to_delete(server: Server, model_folder: Path) -> None:
    code = f"""
folder = {str(model_folder)!r}
found = {{"user": api.whoami()["name"], "url": str(api.create_repo("team/tiny"))}}
first = api.upload_folder(folder_path=folder, repo_id="team/tiny", commit_message="the first").oid
api.create_tag("team/tiny", tag="v1", tag_message="one")
api.create_tag("team/tiny", tag="v1", exist_ok=True)
again = api.upload_folder(folder_path=folder, repo_id="team/tiny").oid
second = api.upload_file(path_or_fileobj=b"new", path_in_repo="deep/notes.txt", repo_id="team/tiny").oid
api.delete_file("deep/notes.txt", "team/tiny", commit_message="take it out")
api.create_branch("team/tiny", branch="dev", revision="v1")
api.upload_file(path_or_fileobj=b"dev", path_in_repo="dev.txt", repo_id="team/tiny", revision="dev")
info = api.model_info("team/tiny", revision="v1", files_metadata=True)
refs = api.list_repo_refs("team/tiny")
found |= {{
    "same": again == first,
    "info": [info.sha == first, info.pipeline_tag, info.card_data.language],
    "sizes": {{sibling.rfilename: sibling.size for sibling in info.siblings}},
    "models": [[m.id for m in api.list_models(**query)] for query in (
        {{}}, {{"search": "TINY"}}, {{"search": "x"}}, {{"author": "team"}}, {{"author": "x"}},
        {{"filter": "text-classification"}}, {{"filter": "x"}}, {{"limit": 1}})],
    "refs": [[b.name for b in refs.branches], [(t.name, t.target_commit == first) for t in refs.tags]],
    "titles": [commit.title for commit in api.list_repo_commits("team/tiny")],
    "tree": [entry.path for entry in api.list_repo_tree("team/tiny", revision=second)],
    "deep": [entry.path for entry in api.list_repo_tree("team/tiny", "deep", revision=second)],
    "paths": [entry.path for entry in api.get_paths_info("team/tiny", ["config.json", "deep", "x"], revision=second)],
    "exists": [api.file_exists("team/tiny", "config.json"), api.file_exists("team/tiny", "x"), api.repo_exists("a/b"),
               api.revision_exists("team/tiny", "v1"), api.revision_exists("team/tiny", "v2")],
    "file": open(hf_hub_download("team/tiny", "dev.txt", revision="dev")).read(),
    "snapshot": snapshot_download("team/tiny", revision="v1"),
    "local": snapshot_download("team/tiny", local_dir="here"),
}}
api.delete_tag("team/tiny", tag="v1")
api.delete_branch("team/tiny", branch="dev")
found["after"] = [len(api.list_repo_refs("team/tiny").tags), len(api.list_repo_refs("team/tiny").branches)]
print(json.dumps(found))
"""
    found: Any = server.run_client(CLIENT + code)
    assert (found["user"], found["url"]) == ("local", f"{server.address}/team/tiny")
    assert found["same"] is True
    sizes = {file.name: file.stat().st_size for file in model_folder.iterdir()}
    assert found["info"] == [True, "text-classification", "fr"]
    siblings = found["sizes"]
    assert siblings.pop("README.md") > 500
    assert siblings == sizes
    assert found["models"] == [["team/tiny"], ["team/tiny"], [], ["team/tiny"], [], ["team/tiny"], [], ["team/tiny"]]
    assert found["refs"] == [["dev", "main"], [["v1", True]]]
    assert found["titles"][0] == "take it out"
    assert found["titles"][-2:] == ["the first", "Create the repository"]
    assert sorted(found["tree"]) == sorted([*sizes, "README.md", "deep"])
    assert found["deep"] == ["deep/notes.txt"]
    assert sorted(found["paths"]) == ["config.json", "deep"]
    assert found["exists"] == [True, False, False, True, False]
    assert found["file"] == "dev"
    for folder in (Path(found["snapshot"]), server.home / "here"):
        for name, size in sizes.items():
            assert (folder / name).stat().st_size == size
        assert (folder / "model.safetensors").read_bytes() == (model_folder / "model.safetensors").read_bytes()
    assert found["after"] == [0, 1]
    assert server.hub.verify() == []
    assert (
        server.run_client(CLIENT + "api.delete_repo('team/tiny'); print(json.dumps(api.repo_exists('team/tiny')))")
        is False
    )
    assert server.hub.list() == []


def test_errors_are_the_clients_own(server: Server, files: Path) -> None:
    server.hub.push(files, "team/name", tag="v1")
    code = """
def up(path, content=b"x", **more):
    return lambda: api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id="team/name", **more)
print(json.dumps([error(call) for call in (
    lambda: api.model_info("team/none"),
    lambda: hf_hub_download("team/none", "a.txt"),
    lambda: api.model_info("team/name", revision="v2"),
    lambda: snapshot_download("team/name", revision="v2"),
    lambda: hf_hub_download("team/name", "b.txt", revision="v1"),
    lambda: [*api.list_repo_tree("team/name", "none")],
    lambda: api.delete_file("none.txt", "team/name"),
    lambda: api.create_repo("team/new", token="wrong"),
    up("a.txt", token="wrong"),
    up("a.txt", token=False),
    lambda: api.delete_repo("team/name", token="wrong"),
    lambda: api.create_tag("team/name", tag="v2", token="wrong"),
    lambda: api.whoami(token="wrong"),
    lambda: api.create_repo("team/name"),
    lambda: api.create_tag("team/name", tag="v1"),
    lambda: api.create_repo("team/data", repo_type="dataset"),
    up("pytorch_model.bin"),
    up("notes.txt", b"\\x80\\x04\\x95 a pickle"),
    up("nul"),
    up("a.txt/b.txt"),
    up("c.txt", parent_commit="0" * 40),
    up("c.txt", create_pr=True),
    up("c.txt", revision="none"),
)]))
"""
    before = [revision.id for revision in server.hub.log("team/name")]
    found: Any = server.run_client(CLIENT + code)
    kinds = [kind for kind, _ in found]
    assert kinds == [
        "RepositoryNotFoundError", "RepositoryNotFoundError", "RevisionNotFoundError", "RevisionNotFoundError",
        "RemoteEntryNotFoundError", "RemoteEntryNotFoundError", "RemoteEntryNotFoundError",
        *["HfHubHTTPError"] * 8, *["BadRequestError"] * 5, "HfHubHTTPError", "BadRequestError", "RevisionNotFoundError",
    ]  # fmt: skip
    messages = [message for _, message in found]
    assert all("401" in message and "Invalid credentials" in message for message in messages[7:12])
    assert "Invalid user token" in messages[12]
    assert all("409" in message for message in (*messages[13:15], messages[20]))
    assert "ends in .bin" in messages[16]
    assert "begins like a pickle" in messages[17]
    assert "name of a device on Windows" in messages[18]
    assert "found both a.txt and a.txt/b.txt" in messages[19]
    assert str(server.hub.path) not in "".join(messages)
    assert [revision.id for revision in server.hub.log("team/name")] == before
    assert server.hub.list() == ["team/name"]


PUSH = """
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, pipeline
)
import torch
def norm(name, **arguments):
    model = AutoModelForSequenceClassification.from_pretrained(name, trust_remote_code=True, **arguments)
    return sum(parameter.double().abs().sum().item() for parameter in model.parameters())

model = AutoModelForSequenceClassification.from_pretrained("team/tiny", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("team/tiny", trust_remote_code=True)
model.push_to_hub("team/pushed", commit_message="by push_to_hub")
tokenizer.push_to_hub("team/pushed")
api.create_tag("team/pushed", tag="v1")
with torch.no_grad():
    for parameter in model.parameters(): parameter *= 2
model.push_to_hub("team/pushed")
row = {**{name: torch.tensor(ids) for name, ids in tokenizer("un bon livre").items()}, "labels": torch.tensor(1)}
arguments = TrainingArguments(
    "trained", push_to_hub=True, hub_model_id="team/trained", max_steps=2, save_steps=1, save_strategy="steps",
    use_cpu=True, disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=[row] * 8, processing_class=tokenizer)
trainer.train()
trainer.push_to_hub(commit_message="the end")
print(json.dumps({
    "norms": [norm("team/pushed", revision="v1"), norm("team/pushed"), norm("team/pushed", revision="v1")],
    "label": pipeline(model="team/pushed", revision="v1", trust_remote_code=True)("un bon livre")[0]["label"],
    "trained": norm("team/trained") > 0,
}))
"""


def test_push_to_hub_and_trainer(server: Server, model_folder: Path) -> None:
    """Also `pipeline` without a task, which it asks the server for."""
    server.hub.push(model_folder, "team/tiny")
    found: Any = server.run_client(CLIENT + PUSH)
    first, second, third = found["norms"]
    assert (round(second / first, 6), third) == (2, first)
    assert found["label"] in ("bad", "good")
    assert found["trained"] is True
    card = (server.hub.snapshot("team/pushed") / "README.md").read_text()
    assert "parameters" in card
    assert "More Information Needed" not in card
    trained = server.hub.show("team/trained")
    assert {"model.safetensors", "tokenizer.json", "README.md", "config.json"} <= {*trained.files}
    assert "training_args.bin" not in trained.files
    assert "the end" in [revision.title for revision in server.hub.log("team/trained")]
    assert server.hub.verify() == []


@pytest.mark.parametrize("protocol", ["xet", "lfs"])
def test_large_files_in_constant_memory(protocol: str, server: Server) -> None:
    """Both protocols that clients have for large files; the server's memory does not grow with the file."""
    code = """
import hashlib, os
half = os.urandom(1 << 19)
floats = bytes(byte for i in range(1 << 16) for byte in (i & 255, i >> 8 & 3, 0, 63))
with open("large.safetensors", "wb") as file:
    for number in range(96):  # random, repetitive, and like floats: every way to pack a chunk
        file.write(half + number.to_bytes(4, "little") * (1 << 16) + floats)
size = os.path.getsize("large.safetensors")
api.create_repo("team/large")
api.upload_file(path_or_fileobj="large.safetensors", path_in_repo="large.safetensors", repo_id="team/large")
again = api.upload_file(path_or_fileobj="large.safetensors", path_in_repo="copy.safetensors", repo_id="team/large")
file = hf_hub_download("team/large", "large.safetensors")
digest = lambda name: hashlib.sha256(open(name, "rb").read()).hexdigest()
print(json.dumps([size, digest(file) == digest("large.safetensors"), digest(file)]))
"""
    before = server.peak_memory()
    size, same, digest = server.run_client(CLIENT + code, HF_HUB_DISABLE_XET="1" if protocol == "lfs" else "0")  # type: ignore[misc]
    assert same is True
    assert size == 96 << 20
    assert server.peak_memory() - before < 24 << 20
    revision = server.hub.show("team/large")
    assert {file.sha256 for file in revision.files.values()} == {digest}
    assert len([*(server.hub.repository("team/large").folder / "blobs").iterdir()]) == 1
    private = server.hub.path / ".locks" / "greffe"
    assert [path for path in private.rglob("*") if path.is_file() and path.suffix != ".lock"] == []  # nothing stays
    assert (private / "xet").exists() is (protocol == "xet")
    assert server.hub.verify() == []


# ---- requests that no client makes


def ask(
    server: Server, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, Any, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(server.address + path, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_ranges_and_tags_of_content(server: Server, files: Path) -> None:
    (files / "a.txt").write_bytes(bytes(range(100)))
    revision = server.hub.push(files, "team/name", tag="v1").revision
    path, etag = "/team/name/resolve/v1/a.txt", f'"{revision.files["a.txt"].sha256}"'
    status, headers, body = ask(server, path)
    assert (status, body, headers["etag"], headers["x-repo-commit"]) == (200, bytes(range(100)), etag, revision.id)
    assert headers["content-disposition"] == "attachment"
    assert "sandbox" in headers["content-security-policy"]
    status, headers, body = ask(server, path, "HEAD")
    assert (status, body, headers["content-length"], headers["etag"]) == (200, b"", "100", etag)
    status, headers, body = ask(server, path, Range="bytes=10-19")
    assert (status, body, headers["content-range"]) == (206, bytes(range(10, 20)), "bytes 10-19/100")
    assert ask(server, path, Range="bytes=-5")[2] == bytes(range(95, 100))
    assert ask(server, path, Range="bytes=98-")[2] == bytes([98, 99])
    assert ask(server, path, Range="bytes=100-")[0] == 416
    assert ask(server, path, If_None_Match=etag)[::2] == (304, b"")
    assert ask(server, path, If_None_Match='"other"')[0] == 200


HOSTILE_PATHS = [
    "/team/name/resolve/main/../../../../etc/passwd", "/team/name/resolve/main/%2e%2e/%2e%2e/refs/main",
    "/team/name/resolve/main/..%2f..%2frefs%2fmain", "/team/name/resolve/..%2f..%2frefs/main",
    "/team/name/resolve/main//etc/passwd", "/team/name/resolve/main/a.txt%00.json", "/team/name/resolve/main/C:%5Cx",
    "/..%2f..%2fetc/passwd/resolve/main/x", "/team/..%2fname/resolve/main/a.txt", "/%2e%2e/%2e%2e",
    "/api/models/..%2f../x", "/api/models/team/name/tree/main/..%2f..", "/api/models/team/name/revision/..%2f..%2fx",
    "/api/models/team/" + "x" * 5000, "/team/name/resolve/main/" + "x/" * 2000, "/api/models/%00/%00", "/\u202e/x",
]  # fmt: skip


def test_hostile_paths(server: Server, files: Path) -> None:
    server.hub.push(files, "team/name")
    for path in HOSTILE_PATHS:
        for method in ("GET", "HEAD"):
            status, _, body = ask(server, urllib.parse.quote(path, safe="/%:"), method)
            assert status in (400, 404), (path, status)
            assert b"root:" not in body
    assert ask(server, "/team/name/resolve/main/a.txt")[2] == b"one"


def test_hostile_writes(server: Server, files: Path, tmp_path: Path) -> None:
    before = server.hub.push(files, "team/name").revision
    authorised = {"Authorization": f"Bearer {TOKEN}"}
    model = "/api/models/team/name"
    bodies = [b"", b"{", b"[]", b"null", b"3", b'{"files": 3}', b'{"files": [3]}', b'{"files": [{"path": "a"}]}',
              b'{"objects": [{"oid": "../x", "size": 1}]}', b'{"name": "../x", "organization": ".."}', b'{"name": 3}',
              b'{"tag": "../x"}', b'{"tag": 3}', b'{"tag": "%s"}' % (b"0" * 40),
              b"\xff\xfe"]  # fmt: skip
    for path in (
        f"{model}/preupload/main",
        "/team/name.git/info/lfs/objects/batch",
        "/api/repos/create",
        f"{model}/tag/main",
    ):
        for body in bodies:
            status, _, answer = ask(server, path, "POST", body, **authorised)
            assert status == 400, (path, body, status, answer)
            assert json.loads(answer)["error"].strip()
    for path in ("../../escape", "/escape", "a/../../escape", "C:\\escape", "a\0b", ".git/hooks/x", "con", "x" * 2000):
        content = {"content": base64.b64encode(b"x").decode(), "path": path, "encoding": "base64"}
        lines = [{"key": "header", "value": {"summary": "x"}}, {"key": "file", "value": content}]
        body = b"\n".join(json.dumps(line).encode() for line in lines)
        assert ask(server, f"{model}/commit/main", "POST", body, **authorised)[0] == 400
    assert ask(server, "/uploads/team/name/" + "a" * 64, "PUT", b"x")[0] == 403
    forged = f"/uploads/team/name/{'a' * 64}?size=1&expires=99999999999&signature={'0' * 64}"
    assert ask(server, forged, "PUT", b"x")[0] == 403
    xet = f"/xet/team/name/{'0' * 32}/v1"
    for token in ("", "Bearer 99999999999." + "0" * 64, "Bearer ", f"Bearer {TOKEN}"):
        assert ask(server, f"{xet}/xorbs/default/{'a' * 64}", "POST", b"x", Authorization=token)[0] == 401
        assert ask(server, f"{xet}/shards", "POST", b"x", Authorization=token)[0] == 401
    assert server.hub.log("team/name") == [before]
    assert server.hub.list() == ["team/name"]
    assert not [path for path in tmp_path.rglob("*") if "escape" in path.name]


def test_uploads_count_only_when_they_are_what_was_announced(server: Server, files: Path) -> None:
    server.hub.push(files, "team/name")
    body = json.dumps({"operation": "upload", "objects": [{"oid": "a" * 64, "size": 5}]}).encode()
    _, _, answer = ask(server, "/team/name.git/info/lfs/objects/batch", "POST", body, Authorization=f"Bearer {TOKEN}")
    address = json.loads(answer)["objects"][0]["actions"]["upload"]["href"].removeprefix(server.address)
    for content in (b"wrong", b"too long", b"sh"):
        status, _, answer = ask(server, address, "PUT", content)
        assert status == 400
        assert json.loads(answer)["error"].startswith("expected 5 bytes")
    grant = json.loads(ask(server, "/api/models/team/name/xet-write-token/main", Authorization=f"Bearer {TOKEN}")[2])
    session, token = grant["casUrl"].removeprefix(server.address), {"Authorization": f"Bearer {grant['accessToken']}"}
    assert ask(server, f"{session}/v1/xorbs/default/..%2fx", "POST", b"x", **token)[0] in (400, 404)
    assert ask(server, f"{session.replace('team/name', 'team/other')}/v1/shards", "POST", b"x", **token)[0] == 404
    file = b"\x01" * 32 + (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8) + bytes(48)
    shards = [b"", b"x" * 40, bytes(32) + (2).to_bytes(8, "little") + bytes(8) + file + b"\xff" * 48, bytes(5000)]
    for shard in shards:
        assert ask(server, f"{session}/v1/shards", "POST", shard, **token)[0] == 400
    assert not [*(server.hub.path / ".locks" / "greffe").rglob("uploads/*/*")]


def test_hostile_headers(server: Server, files: Path) -> None:
    server.hub.push(files, "team/name")
    create, body = "/api/repos/create", b'{"name": "x", "organization": "team"}'
    for token in (
        TOKEN,
        f"Basic {TOKEN}",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer " + "x" * 9000,
        "Bearer é",
    ):
        assert ask(server, create, "POST", body, Authorization=token.encode().decode("latin-1"))[0] == 401
    # a page of another site, through a name of its own or through the browser of somebody on this machine
    assert ask(server, "/", Host="evil.example")[0] == 400
    assert ask(server, "/", Host=f"localhost:{server.address.rsplit(':')[-1]}")[0] == 200
    assert ask(server, create, "POST", body, Authorization=f"Bearer {TOKEN}", Origin="http://evil.example")[0] == 403
    assert ask(server, "/api/models/team/name/xet-write-token/main")[0] == 401
    with socket.create_connection(server.address.removeprefix("http://").split(":"), timeout=20) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")
        assert b" 200 " not in raw.recv(100)
    with socket.create_connection(server.address.removeprefix("http://").split(":"), timeout=20) as raw:
        raw.sendall(
            b"POST /api/models/team/name/commit/main HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n"
        )
        raw.sendall(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode() + b'{"key": "file", "value": {"content": "AAAA')
    assert ask(server, "/team/name/resolve/main/a.txt")[2] == b"one"  # it still answers
    assert server.hub.list() == ["team/name"]


def test_writes_without_a_token_need_to_be_asked_for(start_server: Callable[..., Server], files: Path) -> None:
    code = CLIENT + "print(json.dumps(error(lambda: api.create_repo('team/new', token=False))[0]))"
    made = start_server()
    usage = [made.process.stdout.readline() for _ in range(3)]
    token = usage[1].split("HF_TOKEN=")[1].strip()
    assert len(token) >= 32
    assert made.run_client(code, HF_TOKEN="") == "HfHubHTTPError"
    assert (
        ask(made, "/api/repos/create", "POST", b'{"name": "x", "organization": "a"}', Authorization=f"Bearer {token}")[
            0
        ]
        == 200
    )
    made.process.terminate()
    assert start_server("--insecure-writes").run_client(code, HF_TOKEN="") == "nothing"


def test_a_port_that_is_taken(server: Server, start_server: Callable[..., Server]) -> None:
    with pytest.raises(AssertionError, match="choose another --port, or 0 for a free one"):
        start_server(port=int(server.address.rsplit(":")[-1]))


def test_pickles_with_permission(start_server: Callable[..., Server]) -> None:
    server = start_server("--insecure-writes", "--allow-pickle")
    code = "api.create_repo('a/b'); api.upload_file(path_or_fileobj=b'x', path_in_repo='x.bin', repo_id='a/b')\n"
    assert server.run_client(CLIENT + code + "print(json.dumps(api.list_repo_files('a/b')))") == ["x.bin"]


def test_pages(server: Server, model_folder: Path) -> None:
    evil = "<script>alert(1)</script>"
    server.hub.push(model_folder, "team/tiny", tag="v1", message=f"message {evil}")
    (model_folder / "README.md").write_text(
        f"---\nlanguage: '{evil}'\npipeline_tag: \"'><img src=x onerror=alert(1)>\"\n---\n# Mine & yours\n{evil}\n"
        "[click](javascript:alert(1)) <img src=x onerror=alert(1)> ![x](http://elsewhere.example/pixel.png)\n"
    )
    server.hub.push(model_folder, "team/tiny")
    for path, expected in (
        ("/", b"team/tiny"),
        ("/team/tiny", b"Mine &amp; yours"),
        ("/team/tiny/tree/v1", b"parameters"),
    ):
        status, headers, body = ask(server, path)
        assert status == 200
        assert expected in body
        for mark in (
            b"<script",
            b"<img src=x",
            b'href="javascript',
            b"onerror=alert(1)>" if path == "/" else b"<script",
        ):
            assert mark not in body, (path, mark)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "script-src" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert b"message &lt;script&gt;" in ask(server, "/team/tiny")[2]
    assert ask(server, "/team/none")[0] == 404
    assert ask(server, "/team/tiny/tree/none")[0] == 404
    os.truncate(server.hub.repository("team/tiny").blob(server.hub.show("team/tiny").files["README.md"]), 3)
    assert ask(server, "/")[0] == 200
