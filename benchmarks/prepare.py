"""Preparation: megabytes of text a second, for learning a tokenizer and for turning a corpus into rows of tokens.

Beside the first stands the `tokenizers` library's own trainer on the file, with GPT-2's settings; beside the second,
`datasets.map` with the same tokenizer, as transformers' example scripts do it. Nothing is in a cache. Beside the start
of the embeddings, in seconds, stands nothing: peers draw theirs at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .command_line import Options, main
from .gate import StepCounter
from .report import Case
from .rounds import Contender, alternate
from .workload import Workload, write_corpus, write_tokenizer


def learn_tokenizer(gate: StepCounter, corpus: Path, vocabulary: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    while True:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, min_frequency=2, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train([str(corpus)], trainer)
        gate.step(megabytes=corpus.stat().st_size / 1e6)


def run(options: Options, folder: Path) -> Iterator[Case]:
    write_corpus(folder, options.pick(15, 1), options.corpus)
    rounds = options.count_rounds()
    for size in options.choose_sizes("small"):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary))
        arguments = (workload.corpus, size.vocabulary)
        contenders = [
            Contender("greffe", "ours.learn_tokenizer", arguments),
            Contender("tokenizers alone", "prepare.learn_tokenizer", arguments),
        ]
        measured = alternate(contenders, count="megabytes", steps=1, rounds=rounds)
        yield Case("prepare", f"learning {size.vocabulary:,} tokens", "MB/s", measured)

        contenders = [
            Contender("greffe", "ours.prepare_corpus", (workload,)),
            Contender("datasets.map", "gpt2.prepare_corpus", (workload,)),
        ]
        measured = alternate(contenders, count="megabytes", steps=1, rounds=rounds)
        yield Case("prepare", "corpus into rows", "MB/s", measured)

        start = Contender("greffe", "ours.start_embeddings", (workload,))
        measured = alternate([start], count="starts", steps=1, rounds=1)
        measured["greffe"].values = [1 / rate for rate in measured["greffe"].values]
        yield Case("prepare", f"start of the embeddings, {size.name}", "s", measured, less_is_better=True)


if __name__ == "__main__":
    main(run, __doc__)
