"""Growth: Greffe's tokens a second in pre-training as corpus, vocabulary, rows and processes grow.

Each table compares the largest with the others. A batch has 4,096 tokens, whatever the length of its rows. GPT-2 under
Trainer grows beside it. Two processes of one thread each share the batch of one, and are compared with it.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .command_line import Options, main
from .report import Case
from .rounds import Contender, Measured, alternate, run_command, take_turns
from .sizes import Size
from .workload import Workload, write_corpus, write_tokenizer

_PEERS = {"greffe": "ours.pretrain", "gpt-2": "gpt2.pretrain"}
_BATCH_TOKENS = 4096


def run(options: Options, folder: Path) -> Iterator[Case]:
    write_corpus(folder, options.pick(3, 1), options.corpus)
    for size in options.choose_sizes("experiment"):
        yield from grow_corpus(size, options, folder)
        yield from grow_vocabulary(size, options, folder)
        yield from grow_rows(size, options, folder)
    for size in options.choose_sizes("experiment", "small"):
        yield add_processes(size, options, folder)


def grow_corpus(size: Size, options: Options, folder: Path) -> Iterator[Case]:
    tokenizer = write_tokenizer(folder, size.vocabulary)
    workloads = {}
    for megabytes in options.pick((1, 4, 15), (0.2, 0.4)):
        apart = folder / f"{megabytes}-megabytes"
        apart.mkdir()
        write_corpus(apart, megabytes, options.corpus)
        workloads[f"{megabytes} MB"] = _workload(size, apart, tokenizer, 256)
    yield from _compare("corpus", workloads, options)


def grow_vocabulary(size: Size, options: Options, folder: Path) -> Iterator[Case]:
    workloads = {}
    for vocabulary in options.pick((1000, 8192, 50_001), (300, 600)):
        changed = replace(size, vocabulary=vocabulary)
        workloads[f"{vocabulary:,} tokens"] = _workload(changed, folder, write_tokenizer(folder, vocabulary), 256)
    yield from _compare("vocabulary", workloads, options)


def grow_rows(size: Size, options: Options, folder: Path) -> Iterator[Case]:
    tokenizer = write_tokenizer(folder, size.vocabulary)
    lengths = options.pick((64, 256, 1024), (64, 256))
    workloads = {f"rows of {length}": _workload(size, folder, tokenizer, length) for length in lengths}
    yield from _compare("rows", workloads, options)


def _workload(size: Size, folder: Path, tokenizer: Path, block_size: int) -> Workload:
    return Workload(size, folder, tokenizer, batch_size=_BATCH_TOKENS // block_size, block_size=block_size)


def _compare(what: str, workloads: dict[str, Workload], options: Options) -> Iterator[Case]:
    contenders = [
        Contender(f"{peer} {name}", work, (workload,))
        for name, workload in workloads.items()
        for peer, work in _PEERS.items()
    ]
    measured = alternate(contenders, count="tokens", steps=options.pick(2, 1), rounds=options.count_rounds())
    largest = list(workloads)[-1]
    for peer in _PEERS:
        own = {name: measured[f"{peer} {name}"] for name in workloads}
        yield Case("growth", f"{what}, {peer}", "tokens/s", own, base=largest)


def add_processes(size: Size, options: Options, folder: Path) -> Case:
    """Each run is started anew: processes that are to work together cannot wait for others' turns."""
    workload = _workload(size, folder, write_tokenizer(folder, size.vocabulary), 256)
    workload = replace(workload, steps=options.pick(4, 1))
    file = folder / f"{size.name}.pickle"
    file.write_bytes(pickle.dumps(workload))
    alone: list[str | Path] = [sys.executable, "-m", "benchmarks.processes", file]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--rdzv_backend", "c10d"]
    launch += ["--rdzv_endpoint", "localhost:0"]
    together: list[str | Path] = [sys.executable, *launch, *alone[1:]]
    measured = {"two processes": Measured([]), "one process": Measured([])}
    for name, command in take_turns((("one process", alone), ("two processes", together)), options.count_rounds()):
        said = run_command(command, {"OMP_NUM_THREADS": "1"})
        measured[name].values.append(json.loads(said.splitlines()[-1])["tokens/s"])
    return Case("growth", f"processes of one thread, {size.name}", "tokens/s", measured, base="two processes")


if __name__ == "__main__":
    main(run, __doc__)
