"""A tiny model folder, a hub, a server process, and an interpreter that has the clients but not Greffe."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from environments import without_greffe
from greffe.hub import LocalHub
from greffe.modeling import GreffeForSequenceClassification
from hub_server import TOKEN, Server
from tiny_models import tiny_config
from tiny_tokenizers import word_tokenizer

MADE = {
    "stage": "finetune",
    "language": "fr",
    "base_model": "team/base",
    "base_revision": "v2",
    "data": {"/home/somebody/private/reviews.csv": "a fingerprint"},
    "metrics": {"eval_accuracy": 0.9125, "eval_loss": 0.25},
    "versions": {"torch": "2.13.0"},
}


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with its tokenizer and what the stages say of it. Not to be changed: see `model_folder`."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    torch.manual_seed(0)
    config = tiny_config(num_labels=2, id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1})
    GreffeForSequenceClassification(config).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    (folder / "greffe.json").write_text(json.dumps(MADE))
    return folder


@pytest.fixture
def model_folder(saved_model: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in saved_model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> LocalHub:
    return LocalHub(tmp_path / "hub")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of two small files, for tests that need no model."""
    folder = tmp_path / "files"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("one")
    (folder / "deep" / "b.txt").write_text("two")
    return folder


@pytest.fixture(scope="session")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_greffe(tmp_path_factory.mktemp("client") / "environment")


@pytest.fixture
def start_server(tmp_path: Path, client_python: Path) -> Iterator[Callable[..., Server]]:
    started = []

    def start(*options: str, port: int = 0) -> Server:
        home = tmp_path / "client"
        home.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "greffe.train.cli", "hub", "serve", "--hub", tmp_path / "hub", "--port", str(port),
             *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env={**os.environ},
        )  # fmt: skip
        started.append(process)
        first = process.stdout.readline()
        address = re.search(r"http://\S+", first)
        assert address, first + process.stdout.read()
        return Server(address.group(), LocalHub(tmp_path / "hub"), process, client_python, home)

    yield start
    for process in started:
        process.terminate()
        process.wait(20)


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--token", TOKEN)
