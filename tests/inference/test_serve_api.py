"""The API of a classifier: a real process, asked well and badly, fast and slowly, by one and by many."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from greffe.inference import load_classifier
from model_server import ModelServer, make_texts, save_classifier, serving

READ_TIMEOUT = 1.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("model") / "tiny", labels=("bad", "fair", "good"))


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    options = ["--no-page", "--max_body", "30000", "--max_texts", "40", "--max_characters", "2000"]
    options += ["--read_timeout", str(READ_TIMEOUT), "--timeout", "30"]
    with serving(folder, *options, cwd=tmp_path_factory.mktemp("server")) as started:
        yield started


def test_predictions_are_the_models(server: ModelServer, folder: Path) -> None:
    texts = [*make_texts(20), "", "un mot 🙂 inconnu"]
    answer = server.ask("/predict", {"texts": texts})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    expected = load_classifier(folder).predict(texts)
    for found, prediction in zip(answer.json["predictions"], expected, strict=True):
        assert found["labels"] == list(prediction.labels)
        assert found["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-5)
        assert list(found["probabilities"]) == [name for name, _ in prediction.top(3)]
    first = server.ask("/predict", {"texts": texts[:1], "top_k": 1}).json["predictions"][0]
    assert list(first["probabilities"]) == first["labels"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "expected JSON in UTF-8"),
        ({"texts": ["a"] * 41}, 400, "expected at most 40 items in texts, found 41"),
        ({"texts": ["a" * 2001]}, 400, "expected at most 2,000 characters in texts[0], found 2,001"),
        ({"texts": ["a"], "other": 1}, 400, "found 'other'"),
        (b'{"texts": ["\\ud800"]}', 400, "lone surrogate"),
        ({"texts": ["a" * 1900] * 16}, 413, "expected a body of at most 30,000 bytes, found more"),
    ],
)
def test_bad_requests(server: ModelServer, body: object, status: int, message: str) -> None:
    answer = server.ask("/predict", body)
    assert answer.status == status
    assert message in answer.json["error"]


def test_other_paths_and_methods(server: ModelServer) -> None:
    found = server.ask("/predict")
    assert (found.status, found.headers["allow"]) == (405, "POST")
    generate = server.ask("/generate", {"prompt": "a"})
    assert generate.status == 404
    assert "expected a language model, found a classifier; POST /predict" in generate.json["error"]
    assert server.ask("/nothing").status == 404
    assert server.ask("/health").json == {"status": "ok"}


def test_the_schema_is_published(server: ModelServer) -> None:
    document = server.ask("/openapi.json").json
    assert set(document["paths"]) == {"/predict", "/health", "/metrics"}
    operation = document["paths"]["/predict"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["texts"]["maxItems"] == 40
    assert schema["properties"]["texts"]["items"]["maxLength"] == 2000


def test_a_huge_body_is_refused_before_it_is_sent(server: ModelServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n{")
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"found 10,000,000,000" in answer


def test_a_huge_body_that_announces_nothing_is_refused(server: ModelServer) -> None:
    before = server.memory()
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with suppress(OSError):  # it closes the connection
            while sent < 1 << 28:
                connection.sendall(chunk)
                sent += len(chunk)
    assert sent < 1 << 25
    assert server.memory() - before < 1 << 25
    assert server.ask("/health").status == 200


def test_a_slow_body_is_given_up_and_holds_up_nobody(server: ModelServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        start = time.perf_counter()
        stop = threading.Event()
        dripping = threading.Thread(target=drip, args=(connection, stop))
        dripping.start()
        assert server.ask("/predict", {"texts": ["un livre"]}).status == 200
        answer = receive_all(connection)
        seconds = time.perf_counter() - start
        stop.set()
        dripping.join()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"expected the body within 1.5 s" in answer
    assert READ_TIMEOUT <= seconds < READ_TIMEOUT + 15


def drip(connection: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(0.2):
        try:
            connection.sendall(b" ")
        except OSError:
            return


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_slow_headers_are_given_up(server: ModelServer, before: bytes) -> None:
    with server.connect() as connection:
        if before:
            connection.sendall(before)
            answer = b""
            while b"ok" not in answer.partition(b"\r\n\r\n")[2]:  # headers and body may come together or apart
                answer += connection.recv(65536)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        start = time.perf_counter()
        assert receive_all(connection) == b""
        assert READ_TIMEOUT - 0.5 <= time.perf_counter() - start < READ_TIMEOUT + 15


def test_a_client_that_does_not_read_is_given_up(server: ModelServer) -> None:
    """It asks for more than fits on the way to it. What it has not read in time, it is not sent."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(server.place)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(request * 200_000)
    assert server.ask("/health").status == 200


def receive_all(connection: socket.socket) -> bytes:
    """Until the server closes the connection, one way or the other."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


def test_hundreds_at_once_each_get_their_own_answer(server: ModelServer, folder: Path) -> None:
    texts = make_texts(300)
    expected = load_classifier(folder).predict(texts)
    batches = server.metric("greffe_batch_size_count")
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda text: server.ask("/predict", {"texts": [text]}), texts))
    assert [answer.status for answer in answers] == [200] * 300
    for answer, prediction in zip(answers, expected, strict=True):
        (found,) = answer.json["predictions"]
        assert found["labels"] == list(prediction.labels)
        assert found["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-5)
    assert server.metric("greffe_batch_size_count") - batches < 300
    assert server.metric('greffe_queue_length{queue="predict"}') == 0


def test_memory_stays_flat(server: ModelServer) -> None:
    texts = make_texts(200)

    def ask_all() -> int:
        with ThreadPoolExecutor(50) as pool:
            answers = pool.map(lambda text: server.ask("/predict", {"texts": [text]}), texts)
            assert {answer.status for answer in answers} == {200}
        return server.memory()

    ask_all()  # which fills what is kept
    before = ask_all()
    assert ask_all() - before < 8 << 20


def test_requests_are_counted(server: ModelServer) -> None:
    good, bad = (f'greffe_requests_total{{endpoint="/predict",status="{status}"}}' for status in (200, 400))
    before = [server.metric(line) for line in (good, bad, 'greffe_texts_total{kind="read"}')]
    server.ask("/predict", {"texts": ["un", "deux"]})
    server.ask("/predict", b"[")
    after = [server.metric(line) for line in (good, bad, 'greffe_texts_total{kind="read"}')]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 2]
    assert server.metric('greffe_errors_total{endpoint="/predict"}') >= 1


def test_web_pages_of_others_are_refused(server: ModelServer) -> None:
    """A page can make a browser ask this server: under its own name, or from its own site."""
    port = server.place[1]
    assert server.ask("/health", Host=f"evil.example:{port}").status == 400
    assert server.ask("/predict", {"texts": ["a"]}, Origin="http://evil.example").status == 403
    assert server.ask("/predict", {"texts": ["a"]}, Origin="null").status == 403
    assert server.ask("/predict", {"texts": ["a"]}, Origin=server.address).status == 200


def test_a_connection_takes_several_requests(server: ModelServer) -> None:
    connection = http.client.HTTPConnection(*server.place, timeout=20)
    sockets = []
    for _ in range(3):
        connection.request("POST", "/predict", json.dumps({"texts": ["un"]}))
        sockets.append(connection.sock)
        assert len(json.loads(connection.getresponse().read())["predictions"]) == 1
    connection.close()
    assert sockets[0] is sockets[1] is sockets[2]


def test_a_full_queue_and_the_end(folder: Path, tmp_path: Path) -> None:
    """Texts wait for company: what does not fit is refused; what does is answered, also after SIGTERM."""
    options = ["--no-page", "--max_queue", "5", "--batch_milliseconds", "1000"]
    with serving(folder, *options, cwd=tmp_path) as server, ThreadPoolExecutor(8) as pool:
        pending = [pool.submit(server.ask, "/predict", {"texts": ["un", "le"]}) for _ in range(8)]
        time.sleep(0.5)
        assert server.stop() == 0
        answers = [answer.result() for answer in pending]
    statuses = sorted(answer.status for answer in answers)
    assert statuses[0] == 200
    assert set(statuses) == {200, 429}
    refused = next(answer for answer in answers if answer.status == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert "expected at most 5 texts to wait for the model" in refused.json["error"]


def test_other_machines_need_the_token(folder: Path, tmp_path: Path) -> None:
    """Asked for under any name, as other machines do; whoever is on this one needs it too."""
    with serving(folder, "--no-page", "--host", "0.0.0.0", "--token", "secret", cwd=tmp_path) as server:
        assert server.place[0] == "0.0.0.0"
        body = {"texts": ["un livre"]}
        for host in ("example.org", "127.0.0.1"):
            assert server.ask("/health", Host=host).status == 200
            refused = server.ask("/predict", body, Host=host)
            assert refused.status == 401
            assert "expected the token of this server, found none" in refused.json["error"]
            assert server.ask("/predict", body, Host=host, Authorization="Bearer wrong").status == 401
            assert server.ask("/predict", body, Host=host, Authorization="Bearer secret").status == 200
