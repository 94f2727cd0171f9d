"""Pre-training: tokens a second and peak memory, beside the experiment's loop, GPT-2 under Trainer and a minimal loop.

All train on the same text with the same vocabulary, 16 rows a batch. Tokens of the text are counted, padding is not.
The last line is the ceiling, the matrix products of the same step alone, and each result is also a share of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .command_line import Options, main
from .report import CEILING, Case, add_shares
from .rounds import Contender, alternate
from .sizes import Size
from .workload import Workload, write_corpus, write_tokenizer

_TOKENS = 8192  # of a slice, at least
_BLOCKS = {"experiment": (64, 256), "small": (256,), "tiny": (64,)}  # tokens in a row; the first of them if quick


def run(options: Options, folder: Path) -> Iterator[Case]:
    write_corpus(folder, options.pick(5, 1), options.corpus)
    for size, block_size in choose_cases(options):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary), block_size=block_size)
        tokens = options.pick(_TOKENS, 0)
        workload = replace(workload, steps=max(2, tokens // (workload.batch_size * block_size)))
        measured = alternate(
            make_contenders(workload, options.compile),
            count="tokens",
            steps=workload.steps,
            rounds=options.count_rounds(5),
        )
        add_shares(measured)
        yield Case("pretrain", f"{size.name}, blocks of {block_size}", "tokens/s", measured)


def choose_cases(options: Options) -> list[tuple[Size, int]]:
    sizes = options.choose_sizes("experiment", "small")
    return [(size, block) for size in sizes for block in _BLOCKS[size.name][: options.pick(None, 1)]]


def make_contenders(workload: Workload, compiled: bool) -> list[Contender]:
    contenders = [Contender("greffe", "ours.pretrain", (workload,))]
    if workload.size.preset == "lab":  # the kind of layer that the experiment has
        contenders.append(Contender("experiment's loop", "reference.pretrain", (workload,)))
    contenders.append(Contender("gpt-2, Trainer", "gpt2.pretrain", (workload,)))
    contenders.append(Contender("minimal loop", "nanogpt.pretrain", (workload,)))
    if compiled:
        contenders.append(Contender("minimal loop, compiled", "nanogpt.pretrain", (workload, True)))
    sizes = (workload.size, workload.batch_size, workload.block_size)
    return [*contenders, Contender(CEILING, "ceiling.multiply", sizes)]


if __name__ == "__main__":
    main(run, __doc__)
