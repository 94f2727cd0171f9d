"""The application without a network: what it answers when its model is stuck, or gone."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from greffe.inference import load_classifier, load_language_model
from greffe.inference.server.app import make_app
from greffe.inference.server.batching import Batcher
from greffe.inference.server.errors import TooSlowError
from greffe.inference.server.limits import Limits
from greffe.inference.server.metrics import Metrics
from greffe.inference.server.schema import generate_schema, read_request
from greffe.inference.server.workers import Worker
from greffe.inference.server.writing import Writer
from model_server import save_classifier, save_language_model
from starlette.testclient import TestClient

SETTINGS = read_request(b'{"prompt": "un livre", "max_new_tokens": 3}', generate_schema(Limits()))
del SETTINGS["stream"]
REQUESTS = {"/predict": {"texts": ["un livre"]}, "/generate": SETTINGS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_classifier(folder / "predict")
    save_language_model(folder / "generate")
    return folder


def make_worker(folder: Path, path: str, **limits: Any) -> tuple[Worker, Any]:
    """A worker for this path of the API, and the torch model that it works with."""
    if path == "/predict":
        classifier = load_classifier(folder / "predict")
        return Batcher(classifier, Limits(**limits), Metrics()), classifier.model
    model = load_language_model(folder / "generate")
    return Writer(model, Limits(**limits), Metrics()), model.model


@contextmanager
def asking(*workers: Worker) -> Iterator[TestClient]:
    app = make_app("tiny", list(workers), workers[0].limits, Metrics(), with_token=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("path", REQUESTS)
def test_a_model_that_is_stuck_is_not_waited_for(folder: Path, path: str) -> None:
    worker, model = make_worker(folder, path, timeout=0.3)
    go = threading.Event()
    hook = model.register_forward_pre_hook(lambda *_: go.wait(20) and None)
    with asking(worker) as client:
        answer = client.post(path, json=REQUESTS[path])
        go.set()
        assert answer.status_code == 503
        assert "expected an answer within 0.3 s" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) >= 1
        hook.remove()
        worker.limits = replace(worker.limits, timeout=20)
        assert client.post(path, json=REQUESTS[path]).status_code == 200


def test_a_text_whose_time_is_over_is_given_as_far_as_it_came(folder: Path) -> None:
    worker, _ = make_worker(folder, "/generate", timeout=2, max_new_tokens=10**8)
    endless = {"prompt": "un livre", "max_new_tokens": 10**8, "temperature": 0}
    with asking(worker) as client:
        whole = client.post("/generate", json=endless).json()
        *pieces, last = (json.loads(line[6:]) for line in client.post(
            "/generate", json={**endless, "stream": True}).iter_lines() if line)  # fmt: skip
    start = "".join(load_language_model(folder / "generate").generate(**{**endless, "max_new_tokens": 5}))
    for found in (whole, last):
        assert found["timed_out"] is True
        assert found["text"].startswith(start)
    assert "".join(piece["piece"] for piece in pieces) == last["text"]


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_health_is_that_of_the_model(folder: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of the one that is only compared with."""
    (good, _), (bad, _) = make_worker(folder, path), make_worker(folder, path, timeout=0.3)
    with asking(good, bad) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.post(path, json=REQUESTS[path]).status_code == 200
        if isinstance(bad, Batcher):
            client.portal.call(bad._gathering.cancel)
        else:
            monkeypatch.setattr(bad, "_read", None)  # which cannot be called
            with pytest.raises(TooSlowError):
                client.portal.call(anext, bad.write(**SETTINGS))
        answer = client.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {"error": "expected the model at work, found that it has stopped; start the server again"}
