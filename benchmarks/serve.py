"""`greffe serve` under load: hundreds of clients at once on this machine, with batching and without.

The models have the sizes of the preset `small` and are drawn at random, the texts are film reviews; `--model` and
`--texts` take others. Every client keeps its connection and sends its next request when it has the answer to the last.
To a classifier a request is a text, to a language model the beginning of one, which is continued with the most probable
tokens. Each answer is compared with what the model gives for that request alone. The clients share the processor with
the server: what is measured is a machine that does both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from .text import LABELS, read_reviews

TOLERANCE = 1e-4  # of a probability that JSON has carried
MODES = {"batching": [], "no batching": ["--max_batch", "1", "--batch_milliseconds", "0"]}
# Of a request to continue a text: the words of its prompt and the tokens to write. One costs as much as many texts to
# classify, so there are fewer of them, on so many prompts.
WORDS, TOKENS, SHARE, PROMPTS = 12, 32, 5, 100


@dataclass(frozen=True)
class Work:
    """What the clients ask for, what they should get, and how to tell."""

    path: str
    bodies: list[dict[str, Any]]
    expected: list[Any]
    is_right: Callable[[Any, Any], bool]

    def part(self, rows: slice) -> Work:
        return Work(self.path, self.bodies[rows], self.expected[rows], self.is_right)


def save_models(folder: Path, texts: list[str]) -> list[Path]:
    """A classifier and a language model drawn at random: their speed does not depend on what they have learned."""
    import torch
    from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification
    from greffe.tokenization import train_tokenizer

    tokenizer = train_tokenizer(texts, 8192)
    names = dict(enumerate(LABELS))
    labels = {"num_labels": 2, "id2label": names, "label2id": {name: key for key, name in names.items()}}
    for name, head, options in (
        ("classifier", GreffeForSequenceClassification, labels),
        ("language-model", GreffeForCausalLM, {}),
    ):
        torch.manual_seed(0)
        head(GreffeConfig.from_preset("small", vocab_size=len(tokenizer), **options)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return [folder / "classifier", folder / "language-model"]


def make_work(model: Path, texts: list[str], requests: int) -> Work:
    """So many requests to a model, over the texts again and again, and its answers to each alone."""
    from greffe.inference.model_folder import find_model

    if find_model(model)[1] == "GreffeForSequenceClassification":
        return _make_predictions(model, list(islice(cycle(texts), requests)))
    return _make_continuations(model, texts, max(requests // SHARE, 1))


def _make_predictions(model: Path, texts: list[str]) -> Work:
    from greffe.inference import load_classifier

    classifier = load_classifier(model)
    if classifier.labels.task == "regression":
        raise ValueError(f"expected a classifier with labels in {model}, found a regression")
    known = {text: found.probabilities for text, found in zip(texts, classifier.predict(texts), strict=True)}

    def is_right(answer: Any, expected: dict[str, float]) -> bool:
        found = answer["predictions"][0]["probabilities"]
        return all(abs(found[label] - share) <= TOLERANCE for label, share in expected.items())

    return Work("/predict", [{"texts": [text]} for text in texts], [known[text] for text in texts], is_right)


def _make_continuations(model: Path, texts: list[str], requests: int) -> Work:
    from greffe.inference import load_language_model

    writer = load_language_model(model)
    settings: dict[str, Any] = {"max_new_tokens": TOKENS, "temperature": 0}
    prompts = list(dict.fromkeys(" ".join(text.split()[:WORDS]) for text in texts))[:PROMPTS]
    alone = {prompt: "".join(writer.generate(prompt, **settings)) for prompt in prompts}
    asked = list(islice(cycle(prompts), requests))
    bodies = [{"prompt": prompt, **settings} for prompt in asked]
    return Work("/generate", bodies, [alone[prompt] for prompt in asked], lambda answer, text: answer["text"] == text)


@contextmanager
def serve(folder: Path, options: list[str]) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port and the process of a server."""
    command = [sys.executable, "-m", "greffe.train.cli", "serve", str(folder), "--no-page", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline() if process.stdout else ""
        address = re.search(r"http://[^:]+:(\d+)", first)
        if address is None:
            raise RuntimeError(f"expected the address of a server, found {first!r}")
        yield int(address[1]), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)


@dataclass
class Load:
    """What happened to the requests."""

    seconds: list[float] = field(default_factory=list)
    lost: int = 0  # no answer, or one that is not 200
    wrong: int = 0  # an answer that is not the one to its request


async def run_clients(port: int, work: Work, clients: int) -> Load:
    """Send every request once, from so many connections."""
    load, numbers = Load(), iter(range(len(work.bodies)))
    await asyncio.gather(*(_run_client(port, work, numbers, load) for _ in range(clients)))
    return load


async def _run_client(port: int, work: Work, numbers: Iterator[int], load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        body = json.dumps(work.bodies[number]).encode()
        head = f"POST {work.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        try:
            writer.write(head.encode() + body)
            status, answer = await _read_answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            load.lost += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        load.seconds.append(time.perf_counter() - start)
        if status != 200:
            load.lost += 1
        elif not work.is_right(answer, work.expected[number]):
            load.wrong += 1
    writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return int(head.split(b" ", 2)[1]), json.loads(await reader.readexactly(int(length[1]) if length else 0))


def resident_megabytes(process: subprocess.Popen[str]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 requests of 100 clients, in place of 6,000 of 300")
    parser.add_argument(
        "--requests",
        type=int,
        metavar="N",
        help=f"of each mode, after a warm-up; to continue a text, 1 / {SHARE} of it",
    )
    parser.add_argument("--clients", type=int, metavar="N", help="at the same time")
    parser.add_argument("--model", type=Path, metavar="DIR", help="default: one of each kind, drawn at random")
    parser.add_argument("--texts", metavar="FILE", help=".txt, .jsonl, .csv or .parquet; default: film reviews")
    options = parser.parse_args()
    requests = options.requests or (500 if options.quick else 6000)
    clients = options.clients or (100 if options.quick else 300)

    texts = read_texts(options.texts) if options.texts else [text for text, _ in read_reviews()[:requests]]
    with tempfile.TemporaryDirectory() as folder:
        models = [options.model] if options.model else save_models(Path(folder), texts[:2000])
        for model in models:
            _measure_model(model, make_work(model, texts, requests), clients)


def read_texts(path: str) -> list[str]:
    """The texts of a file, labelled or not, as long as the server takes them."""
    from greffe.inference.server.limits import Limits
    from greffe.inference.sources import open_source

    windows = open_source([path], "text", "strict", sys.stdin.buffer).windows()
    return [text[: Limits().max_characters] for window in windows for text in window.texts]


def _measure_model(model: Path, work: Work, clients: int) -> None:
    print(
        f"{work.path}: {len(work.bodies):,} requests of {clients} clients; times in milliseconds, memory of the server "
        "in MB before, halfway and after"
    )
    heads = ("lost", "wrong", "a second", "p50", "p90", "p99", "max", "before", "half", "after")
    print(f"{'':<12}" + "".join(f"{head:>9}" for head in heads))
    for mode, flags in MODES.items():
        with serve(model, flags) as (port, process):
            _measure(mode, port, process, work, clients)


def _measure(mode: str, port: int, process: subprocess.Popen[str], work: Work, clients: int) -> None:
    """One line: the whole load in two halves, to see whether memory still grows in the second."""
    asyncio.run(run_clients(port, work.part(slice(0, 2 * clients)), clients))
    memory = [resident_megabytes(process)]
    loads, start, middle = [], time.perf_counter(), len(work.bodies) // 2
    for rows in (slice(0, middle), slice(middle, None)):
        loads.append(asyncio.run(run_clients(port, work.part(rows), clients)))
        memory.append(resident_megabytes(process))
    elapsed = time.perf_counter() - start
    seconds = [value for load in loads for value in load.seconds]
    centiles = [1e3 * value for value in statistics.quantiles(seconds, n=100)]
    values = [sum(load.lost for load in loads), sum(load.wrong for load in loads), len(seconds) / elapsed]
    values += [centiles[49], centiles[89], centiles[98], 1e3 * max(seconds), *memory]
    print(f"{mode:<12}" + "".join(f"{value:>9.0f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
