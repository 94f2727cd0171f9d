"""A server that is killed in the middle of an upload, a disk that fills up, and two clients at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hub_server import TOKEN, Server


def begin_upload(server: Server) -> socket.socket:
    """Half of a commit: its first file has arrived, its second is on the way."""
    host, port = server.address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    head = "POST /api/models/team/name/commit/main HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999999\r\n"
    connection.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    connection.sendall(b'{"key": "file", "value": {"content": "' + b"AAAA" * 1_000_000)
    return connection


def staged(server: Server) -> list[Path]:
    return [path for path in (server.hub.path / ".locks" / "greffe" / "staging").rglob("*") if path.suffix != ".lock"]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_server_leaves_the_hub_as_it_was(start_server: Callable[..., Server], files: Path) -> None:
    server = start_server("--token", TOKEN)
    before = server.hub.push(files, "team/name").revision
    with begin_upload(server):
        wait_until(lambda: any(path.is_file() and path.stat().st_size > 1_000_000 for path in staged(server)))
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    assert staged(server)
    assert server.hub.log("team/name") == [before]
    assert server.hub.verify() == []
    again = start_server("--token", TOKEN)
    code = "from huggingface_hub import upload_file\n"
    code += "print(json.dumps(upload_file(path_or_fileobj=b'x', path_in_repo='x.txt', repo_id='team/name').oid))"
    assert again.run_client(code) == again.hub.show("team/name").id
    assert staged(again) == []


def test_a_client_that_goes_away_leaves_nothing(server: Server, files: Path) -> None:
    before = server.hub.push(files, "team/name").revision
    with begin_upload(server):
        wait_until(lambda: staged(server))
    wait_until(lambda: not staged(server))
    assert server.hub.log("team/name") == [before]


def test_two_clients_at_once(server: Server, files: Path) -> None:
    server.hub.push(files, "team/name")
    code = """
import json, sys
from huggingface_hub import HfApi
for number in range(5):
    HfApi().upload_file(path_or_fileobj=f"{sys.argv[1]} {number}".encode(), path_in_repo=f"{sys.argv[1]}{number}.txt",
        repo_id="team/name", commit_message=f"{sys.argv[1]} {number}")
"""
    settings = {"HF_ENDPOINT": server.address, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN, "HF_HOME": str(server.home)}
    clients = [
        subprocess.Popen([server.python, "-c", code, name], env={**os.environ, **settings}, cwd=server.home)
        for name in ("left", "right")
    ]
    assert [client.wait(60) for client in clients] == [0, 0]
    names = [f"{name}{number}.txt" for name in ("left", "right") for number in range(5)]
    assert sorted(server.hub.show("team/name").files) == sorted([*names, "a.txt", "deep/b.txt"])
    assert len(server.hub.log("team/name")) == 11
    assert server.hub.verify() == []


def test_a_full_disk_is_said_to_the_client(files: Path, tmp_path: Path) -> None:
    """The limit of a file's size fails a write half-way, as a full disk does."""
    code = f"""
import json, resource, signal, sys, threading, urllib.error, urllib.request
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import uvicorn
from greffe.hub import LocalHub
from greffe.hub.server import make_app
hub = LocalHub({str(tmp_path / "hub")!r})
before = hub.push({str(files)!r}, "team/name").revision
server = uvicorn.Server(uvicorn.Config(make_app(hub, insecure_writes=True), port=0, log_level="error", lifespan="off"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started: pass
port = server.servers[0].sockets[0].getsockname()[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
body = b'{{"key": "file", "value": {{"content": "' + b"A" * 400_000 + b'", "path": "x", "encoding": "base64"}}}}'
try: urllib.request.urlopen(f"http://127.0.0.1:{{port}}/api/models/team/name/commit/main", body)
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, json.loads(error.read())["error"], hub.log("team/name") == [before]]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    status, message, as_before = json.loads(done.stdout.splitlines()[-1])
    assert status == 507
    assert message.startswith("expected room in the hub, found the disk full (File too large)")
    assert as_before is True
