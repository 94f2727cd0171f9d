"""The API of a language model: whole texts, streams, and clients that leave."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from greffe.inference import load_language_model
from model_server import ModelServer, save_language_model, serving

ENDLESS = {"prompt": "un livre", "max_new_tokens": 100_000_000, "temperature": 0}
SETTINGS = {"prompt": "un livre", "max_new_tokens": 12, "seed": 5, "temperature": 1.5, "repetition_penalty": 1.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(tmp_path_factory.mktemp("model") / "writer")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    options = ["--no-page", "--max_new_tokens", "100000000", "--timeout", "4"]
    with serving(folder, *options, cwd=tmp_path_factory.mktemp("server")) as started:
        yield started


def read_events(response: http.client.HTTPResponse) -> Iterator[Any]:
    for line in response:
        if line.strip():
            assert line.startswith(b"data: ")
            yield json.loads(line[6:])


def open_stream(server: ModelServer, settings: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(*server.place, timeout=30)
    connection.request("POST", "/generate", json.dumps({**settings, "stream": True}))
    return connection, connection.getresponse()


def test_the_text_is_the_models_whole_and_in_pieces(server: ModelServer, folder: Path) -> None:
    expected = "".join(load_language_model(folder).generate(**SETTINGS))
    assert expected
    assert server.ask("/generate", SETTINGS).json == {"text": expected, "timed_out": False}
    connection, response = open_stream(server, SETTINGS)
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, last = read_events(response)
    connection.close()
    assert len(pieces) > 1
    assert "".join(piece["piece"] for piece in pieces) == expected
    assert last == {"text": expected, "timed_out": False}


def test_pieces_come_as_they_are_written(server: ModelServer) -> None:
    connection, response = open_stream(server, ENDLESS)
    start = time.perf_counter()
    events = read_events(response)
    assert next(events)["piece"]
    assert next(events)["piece"]
    assert time.perf_counter() - start < 2
    connection.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_the_model(server: ModelServer, stream: bool) -> None:
    """One text is written at a time: the next one comes at once only if the model has stopped."""
    connection = http.client.HTTPConnection(*server.place, timeout=30)
    connection.request("POST", "/generate", json.dumps({**ENDLESS, "stream": stream}))
    if stream:
        next(read_events(connection.getresponse()))
    time.sleep(0.3)
    connection.sock.close() if connection.sock else connection.close()
    connection.close()
    start = time.perf_counter()
    assert server.ask("/generate", SETTINGS).status == 200
    assert time.perf_counter() - start < 2


def test_a_client_that_leaves_gives_up_its_place(server: ModelServer) -> None:
    waiting = 'greffe_queue_length{queue="generate"}'
    connection, response = open_stream(server, ENDLESS)
    next(read_events(response))
    second = http.client.HTTPConnection(*server.place, timeout=30)
    second.request("POST", "/generate", json.dumps(ENDLESS))
    wait_for(lambda: server.metric(waiting) == 1)
    second.close()
    wait_for(lambda: server.metric(waiting) == 0)
    assert next(read_events(response))["piece"], "the first is still being written"
    connection.close()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 3
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_time_is_limited(server: ModelServer) -> None:
    """What was written until then is given; who has waited all that time for its turn is told to come again."""
    connection, response = open_stream(server, ENDLESS)
    events = read_events(response)
    next(events)
    waited = server.ask("/generate", SETTINGS)
    *_, last = events
    connection.close()
    assert last["timed_out"] is True
    assert last["text"]
    assert waited.status in (200, 503)  # its time ends when the other's does, give or take
    if waited.status == 503:
        assert "expected an answer within 4 s" in waited.json["error"]
        assert int(waited.headers["retry-after"]) >= 1


def test_refusals(server: ModelServer) -> None:
    assert "expected top_p above 0" in server.ask("/generate", {"top_p": 0}).json["error"]
    answer = server.ask("/predict", {"texts": ["a"]})
    assert answer.status == 404
    assert "expected a classifier, found a language model; POST /generate" in answer.json["error"]
    document = server.ask("/openapi.json").json
    assert set(document["paths"]) == {"/generate", "/health", "/metrics"}
