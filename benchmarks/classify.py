"""Classification: texts a second when there are many, and milliseconds when there is one.

From the text as a string to its label, tokenization included, cut at 256 tokens. Beside GPT-2 stands what a sceptic
would use: TF-IDF of words and pairs of words with logistic regression. The ceiling is that of fp32, as are all but
`--bf16 auto` where the processor has bf16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .command_line import Options, main
from .report import CEILING, Case, add_shares
from .rounds import Contender, alternate
from .workload import Workload, write_corpus, write_labelled, write_tokenizer


def run(options: Options, folder: Path) -> Iterator[Case]:
    write_corpus(folder, options.pick(3, 1), options.corpus)
    write_labelled(folder, options.pick(800, 64), options.labelled)
    rounds = options.count_rounds(5)
    for size in options.choose_sizes("experiment", "small"):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary))
        contenders = [
            Contender("greffe", "ours.classify", (workload,)),
            Contender("greffe --bf16 auto", "ours.classify", (workload, "auto")),
            Contender("gpt-2, padded to 256", "gpt2.classify", (workload, "max_length")),
            Contender("gpt-2, padded to the longest", "gpt2.classify", (workload, "longest")),
            Contender("tf-idf", "tfidf.classify", (workload,)),
            Contender(CEILING, "ceiling.multiply_texts", (workload, False)),
        ]
        measured = alternate(contenders, count="texts", steps=1, rounds=rounds)
        add_shares(measured)
        del measured["tf-idf"].facts["of ceiling"]  # it multiplies other matrices
        yield Case("classify", f"{size.name}, many texts", "texts/s", measured)

        alone = replace(workload, steps=options.pick(100, 10))
        contenders = [
            Contender("greffe", "ours.classify_one", (alone,)),
            Contender("gpt-2, pipeline", "gpt2.classify_one", (alone,)),
            Contender("tf-idf", "tfidf.classify_one", (alone,)),
        ]
        measured = alternate(contenders, count="texts", steps=alone.steps, rounds=rounds)
        for contender in measured.values():
            contender.values = [1000 / rate for rate in contender.values]
        yield Case("classify", f"{size.name}, one text", "ms", measured, less_is_better=True)


if __name__ == "__main__":
    main(run, __doc__)
