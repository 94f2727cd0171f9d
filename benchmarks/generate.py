"""Generation: new tokens a second with the cache on, for one prompt of 32 tokens and for sixteen at once.

The most probable token each time, and no end before the last: every contender writes as much. `greffe generate` is the
command's own loop, which gives the text piece by piece; `greffe` and `gpt-2` are transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .command_line import Options, main
from .report import Case
from .rounds import Contender, alternate
from .workload import Workload, write_corpus, write_tokenizer


def run(options: Options, folder: Path) -> Iterator[Case]:
    write_corpus(folder, options.pick(3, 1), options.corpus)
    length = options.pick(200, 20)
    for size in options.choose_sizes("experiment", "small"):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary))
        for prompts in (1, 16):
            contenders = [
                Contender("greffe", "ours.generate", (workload, prompts, length)),
                Contender("gpt-2", "gpt2.generate", (workload, prompts, length)),
            ]
            if prompts == 1:
                contenders.append(Contender("greffe generate", "ours.write", (workload, length)))
            measured = alternate(contenders, count="tokens", steps=1, rounds=options.count_rounds(5))
            yield Case("generate", f"{size.name}, batch of {prompts}", "tokens/s", measured)


if __name__ == "__main__":
    main(run, __doc__)
