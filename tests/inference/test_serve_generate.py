"""The API of a language model: whole texts, streams, and clients that leave."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from greffe.inference import load_language_model
from model_server import ModelServer, make_texts, save_language_model, serving

ENDLESS = {"prompt": "un livre", "max_new_tokens": 100_000_000, "temperature": 0}
SETTINGS = {"prompt": "un livre", "max_new_tokens": 12, "seed": 5, "temperature": 1.5, "repetition_penalty": 1.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(tmp_path_factory.mktemp("model") / "writer")


OPTIONS = ["--no-page", "--max_new_tokens", "100000000", "--max_prompt_tokens", "500"]


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with serving(folder, *OPTIONS, cwd=tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="module")
def slow_server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """It writes one text at a time: the next one's turn comes only if the model has stopped."""
    options = [*OPTIONS, "--max_batch", "1", "--max_queue", "2"]
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
def test_a_client_that_leaves_stops_the_model(slow_server: ModelServer, stream: bool) -> None:
    connection = http.client.HTTPConnection(*slow_server.place, timeout=30)
    connection.request("POST", "/generate", json.dumps({**ENDLESS, "stream": stream}))
    if stream:
        next(read_events(connection.getresponse()))
    time.sleep(0.3)
    connection.sock.close() if connection.sock else connection.close()
    connection.close()
    start = time.perf_counter()
    assert slow_server.ask("/generate", SETTINGS).status == 200
    assert time.perf_counter() - start < 10


def test_a_client_that_leaves_gives_up_its_place(slow_server: ModelServer) -> None:
    waiting = 'greffe_queue_length{queue="generate"}'
    connection, response = open_stream(slow_server, ENDLESS)
    next(read_events(response))
    others = [http.client.HTTPConnection(*slow_server.place, timeout=30) for _ in range(2)]
    for other in others:
        other.request("POST", "/generate", json.dumps(ENDLESS))
    wait_for(lambda: slow_server.metric(waiting) == 2)
    refused = slow_server.ask("/generate", SETTINGS)
    assert refused.status == 429
    assert "expected at most 2 texts to wait for the model, found as many" in refused.json["error"]
    for other in others:
        other.close()
    wait_for(lambda: slow_server.metric(waiting) == 0)
    assert next(read_events(response))["piece"], "the first is still being written"
    connection.close()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 3
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_hundred_at_once_each_get_their_own_text(server: ModelServer, folder: Path) -> None:
    prompts = make_texts(200)
    settings = {"max_new_tokens": 12, "temperature": 0}
    steps, written = "greffe_batch_size_count", 'greffe_texts_total{kind="written"}'
    before = server.metric(steps), server.metric(written)
    with ThreadPoolExecutor(150) as pool:
        answers = list(pool.map(lambda prompt: server.ask("/generate", {"prompt": prompt, **settings}), prompts))
    assert [answer.status for answer in answers] == [200] * 200
    model = load_language_model(folder)
    expected = ["".join(model.generate(prompt, **settings)) for prompt in prompts]
    assert [answer.json for answer in answers] == [{"text": text, "timed_out": False} for text in expected]
    assert len(set(expected)) > 50
    assert server.metric(written) - before[1] == 200
    assert server.metric(steps) - before[0] < 200 * 11 / 2, "tokens of several texts go through the model together"
    assert server.metric('greffe_queue_length{queue="generate"}') == 0


def test_memory_stays_flat(server: ModelServer) -> None:
    bodies = [{"prompt": text, "max_new_tokens": 4} for text in make_texts(200)]

    def ask_all() -> int:
        with ThreadPoolExecutor(50) as pool:
            assert {answer.status for answer in pool.map(lambda body: server.ask("/generate", body), bodies)} == {200}
        return server.memory()

    ask_all()  # which fills what is kept
    before = ask_all()
    assert ask_all() - before < 8 << 20


def test_a_whole_number_is_a_penalty_too(server: ModelServer, folder: Path) -> None:
    settings = {**SETTINGS, "repetition_penalty": 2, "temperature": 1}
    expected = "".join(load_language_model(folder).generate(**{**settings, "repetition_penalty": 2.0}))
    assert server.ask("/generate", settings).json == {"text": expected, "timed_out": False}


def test_refusals(server: ModelServer) -> None:
    for settings, message in (
        ({"top_p": 0}, "expected top_p above 0"),
        ({"temperature": 1e-9}, "expected temperature of 0, or of at least 0.001, found 1e-09"),
        ({"repetition_penalty": 1e-30}, "expected repetition_penalty of at least 0.01, found 1e-30"),
    ):
        found = server.ask("/generate", settings)
        assert found.status == 400
        assert message in found.json["error"]
    for length, status in ((499, 200), (500, 413)):  # and the token with which every text begins
        found = server.ask("/generate", {"prompt": "un " * length, "max_new_tokens": 1})
        assert found.status == status
    assert "expected a prompt of at most 500 tokens, found 501" in found.json["error"]
    answer = server.ask("/predict", {"texts": ["a"]})
    assert answer.status == 404
    assert "expected a classifier, found a language model; POST /generate" in answer.json["error"]
    document = server.ask("/openapi.json").json
    assert set(document["paths"]) == {"/generate", "/health", "/metrics"}
