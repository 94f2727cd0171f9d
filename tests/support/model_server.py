"""A model behind `greffe serve` in a process of its own, and ways to ask it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from greffe.modeling import GreffeForCausalLM, GreffeForSequenceClassification
from tiny_models import tiny_config
from tiny_tokenizers import WORDS, word_tokenizer

# Python runs this file, where it finds it, before anything else: it notes whom the process speaks to.
_WATCH = """
import pathlib, sys
def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        with pathlib.Path(__file__).with_name("connections.log").open("a") as file:
            print(event, arguments[-1] if event == "socket.connect" else arguments[0], file=file)
sys.addaudithook(note)
"""


async def until(condition: Callable[[], object]) -> None:
    """Let others work until this is true."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ModelServer:
    """A running server process."""

    address: str
    process: subprocess.Popen[str]
    folder: Path

    def connections(self) -> list[str]:
        """Whom the process has spoken to, or asked the address of."""
        log = self.folder / "connections.log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def place(self) -> tuple[str, int]:
        host, port = self.address.removeprefix("http://").split(":")
        return host, int(port)

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Answer:
        """GET, or POST of a body: JSON, or bytes as they are. Names of headers are written with _."""
        connection = http.client.HTTPConnection(*self.place, timeout=60)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, content, named)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=20)

    def metric(self, line: str) -> float:
        """The value of one line of /metrics; 0 if it is not there."""
        found = re.search(rf"^{re.escape(line)} (\S+)$", self.ask("/metrics").body.decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def memory(self) -> int:
        """Bytes that the process has in memory now."""
        return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serving(*arguments: str | Path, cwd: Path) -> Iterator[ModelServer]:
    """`greffe serve` with these arguments, on a free port, until the end of the block."""
    command = [sys.executable, "-m", "greffe.train.cli", "serve", *map(str, arguments), "--port", "0"]
    (cwd / "sitecustomize.py").write_text(_WATCH)
    paths = filter(None, [str(cwd), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "TMPDIR": str(cwd), "PYTHONPATH": os.pathsep.join(paths)}
    with (cwd / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=cwd, env=environment)
    try:
        first = process.stdout.readline()
        address = re.search(r"http://\S+", first)
        if not address:
            process.wait(20)
            raise AssertionError((cwd / "server.log").read_text()[-3000:])
        yield ModelServer(address.group(), process, cwd)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def save_classifier(folder: Path, seed: int = 0, labels: tuple[str, ...] = ("bad", "good"), **config: Any) -> Path:
    """A tiny classifier, drawn at random, whose answers depend on the text."""
    torch.manual_seed(seed)
    names = dict(enumerate(labels))
    sizes = {"num_labels": len(labels), "id2label": names, "label2id": {name: key for key, name in names.items()}}
    model = GreffeForSequenceClassification(tiny_config(**{**sizes, **config}))
    with torch.no_grad():
        model.score.weight.mul_(40)  # far enough from one half to tell texts apart
    return _save(model, folder)


def save_language_model(folder: Path, seed: int = 0) -> Path:
    """A tiny language model that never writes the end token when it takes the most probable one each time."""
    torch.manual_seed(seed)
    model = GreffeForCausalLM(tiny_config(vocab_size=len(word_tokenizer())))
    with torch.no_grad():
        model.lm_head.bias[word_tokenizer().eos_token_id] = -100
    return _save(model, folder)


def _save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def make_texts(number: int, longest: int = 40) -> list[str]:
    """Texts of the tokenizer's words, of every length."""
    generator = torch.Generator().manual_seed(number)
    lengths = torch.randint(1, longest, (number,), generator=generator).tolist()
    return [
        " ".join(WORDS[index] for index in torch.randint(len(WORDS), (length,), generator=generator).tolist())
        for length in lengths
    ]
