"""`greffe serve` under load: hundreds of clients at once on this machine, with batching and without.

The model has the sizes of the preset `small`, the texts those of real reviews. Every client keeps its connection and
sends its next text when it has the answer to the last; each answer is compared with what the model says of that text
alone. The clients share the processor with the server: what is measured is a machine that does both.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .text import LABELS, invent_texts

TOLERANCE = 1e-4  # of a probability that JSON has carried
MODES = {"batching": [], "no batching": ["--max_batch", "1", "--batch_milliseconds", "0"]}


def save_model(folder: Path, texts: list[str]) -> None:
    """A classifier drawn at random: its speed does not depend on what it has learned."""
    import torch
    from greffe.modeling import GreffeConfig, GreffeForSequenceClassification
    from greffe.tokenization import train_tokenizer

    tokenizer = train_tokenizer(texts, 8192)
    torch.manual_seed(0)
    names = dict(enumerate(LABELS))
    labels = {"num_labels": 2, "id2label": names, "label2id": {name: key for key, name in names.items()}}
    config = GreffeConfig.from_preset("small", vocab_size=len(tokenizer), **labels)
    GreffeForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


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
    wrong: int = 0  # an answer that is not the one of its text
    worst: float = 0.0  # difference of a probability


async def run_clients(port: int, texts: list[str], expected: list[dict[str, float]], clients: int) -> Load:
    """Send every text once, from so many connections."""
    load, numbers = Load(), iter(range(len(texts)))
    await asyncio.gather(*(_run_client(port, texts, expected, numbers, load) for _ in range(clients)))
    return load


async def _run_client(
    port: int, texts: list[str], expected: list[dict[str, float]], numbers: Iterator[int], load: Load
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        body = json.dumps({"texts": [texts[number]]}).encode()
        start = time.perf_counter()
        try:
            writer.write(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            status, answer = await _read_answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            load.lost += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        load.seconds.append(time.perf_counter() - start)
        if status != 200:
            load.lost += 1
            continue
        found = answer["predictions"][0]["probabilities"]
        difference = max(abs(found[label] - share) for label, share in expected[number].items())
        load.worst = max(load.worst, difference)
        load.wrong += difference > TOLERANCE
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
    parser.add_argument("--requests", type=int, metavar="N", help="of each mode, after a warm-up")
    parser.add_argument("--clients", type=int, metavar="N", help="at the same time")
    options = parser.parse_args()
    requests = options.requests or (500 if options.quick else 6000)
    clients = options.clients or (100 if options.quick else 300)

    texts = invent_texts(requests)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), texts[:2000])
        from greffe.inference import load_classifier

        expected = [prediction.probabilities for prediction in load_classifier(folder).predict(texts)]
        print(f"{requests:,} requests of {clients} clients, one text each; times in milliseconds, memory in MB")
        heads = ("lost", "wrong", "a second", "p50", "p90", "p99", "max", "before", "half", "after")
        print(f"{'':<12}" + "".join(f"{head:>9}" for head in heads))
        for mode, flags in MODES.items():
            with serve(Path(folder), flags) as (port, process):
                _measure(mode, port, process, texts, expected, clients)


def _measure(
    mode: str,
    port: int,
    process: subprocess.Popen[str],
    texts: list[str],
    expected: list[dict[str, float]],
    clients: int,
) -> None:
    """One line: the whole load in two halves, to see whether memory still grows in the second."""
    warm = min(len(texts), 2 * clients)
    asyncio.run(run_clients(port, texts[:warm], expected[:warm], clients))
    memory = [resident_megabytes(process)]
    loads, start, middle = [], time.perf_counter(), len(texts) // 2
    for part in (slice(0, middle), slice(middle, None)):
        loads.append(asyncio.run(run_clients(port, texts[part], expected[part], clients)))
        memory.append(resident_megabytes(process))
    elapsed = time.perf_counter() - start
    seconds = [value for load in loads for value in load.seconds]
    centiles = [1e3 * value for value in statistics.quantiles(seconds, n=100)]
    values = [sum(load.lost for load in loads), sum(load.wrong for load in loads), len(seconds) / elapsed]
    values += [centiles[49], centiles[89], centiles[98], 1e3 * max(seconds), *memory]
    print(f"{mode:<12}" + "".join(f"{value:>9.0f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
