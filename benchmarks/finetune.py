"""Fine-tuning a classifier on texts of real, uneven lengths: texts a second, and how much is spent on padding.

A slice is one epoch over the same texts, cut at 256 tokens, 16 a batch. Work on padding is counted, not timed: the
share of the operations of matrix products, attention included, that no text needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .command_line import Options, main
from .report import CEILING, Case, add_shares
from .rounds import Contender, alternate
from .workload import Workload, write_corpus, write_labelled, write_tokenizer

_BATCH = 16


def run(options: Options, folder: Path) -> Iterator[Case]:
    batches = options.pick(50, 16)  # a few batches would not be sorted by lengths
    write_corpus(folder, options.pick(3, 1), options.corpus)
    write_labelled(folder, batches * _BATCH, options.labelled)
    for size in options.choose_sizes("experiment", "small"):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary), batch_size=_BATCH)
        contenders = [Contender("greffe", "ours.finetune", (workload,))]
        if size.preset == "lab":
            contenders.append(Contender("experiment's loop", "reference.finetune", (workload,)))
        contenders.append(Contender("gpt-2, padded to 256", "gpt2.finetune", (workload, "max_length")))
        contenders.append(Contender("gpt-2, padded to the longest", "gpt2.finetune", (workload, "longest")))
        contenders.append(Contender(CEILING, "ceiling.multiply_texts", (workload, True)))
        measured = alternate(contenders, count="texts", steps=batches, rounds=options.count_rounds())
        add_shares(measured)
        yield Case("finetune", size.name, "texts/s", measured)


if __name__ == "__main__":
    main(run, __doc__)
