"""The work that contenders share: text in plain files, a tokenizer, sizes of models, rows and batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from .sizes import Size
from .text import read_reviews

# Up to here a vocabulary of pieces is learned; a larger one is of whole words, which are counted in a second.
_LARGEST_LEARNED = 8192


@dataclass(frozen=True)
class Workload:
    """What every contender of a case is given. Each reads the same files, in its own way."""

    size: Size
    folder: Path  # to write to, and where the text is
    tokenizer: Path
    batch_size: int = 16
    block_size: int = 256  # tokens in a row of pre-training; the longest text of a classifier
    steps: int = 1  # in a slice, for contenders that repeat the same batches

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus.txt"  # a text a line

    @property
    def labelled(self) -> Path:
        return self.folder / "labelled.jsonl"  # {"text": …, "label": …} a line


def write_corpus(folder: Path, megabytes: float, sources: list[str] | None) -> None:
    """About so many megabytes of text, a text a line: the first of `--corpus`, or of the reviews."""
    from greffe.tokenization import read_corpus

    texts: Iterable[str] = read_corpus(sources) if sources else (text for text, _ in read_reviews())
    size = 0
    with (folder / "corpus.txt").open("w", encoding="utf-8") as file:
        for text in texts:
            size += file.write(" ".join(text.split()) + "\n")
            if size >= megabytes * 1e6:
                return


def write_labelled(folder: Path, number: int, source: str | None) -> None:
    """So many labelled texts: the first of `--labelled`, again from its start if there are fewer, or of the reviews."""
    if source:
        from greffe.train.labelled_data import read_labelled

        read = read_labelled(source)
        rows = list(zip(read.texts, map(str, read.labels), strict=True))
    else:
        rows = read_reviews()
    with (folder / "labelled.jsonl").open("w", encoding="utf-8") as file:
        for text, label in islice(cycle(rows), number):
            file.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")


def read_lines(path: Path, number: int | None = None) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, number)]


def read_labelled_lines(path: Path) -> tuple[list[str], list[int]]:
    """Texts and labels, numbered in the order of their names, for peers that read the file in their own way."""
    rows = [json.loads(line) for line in read_lines(path)]
    names = sorted({row["label"] for row in rows})
    return [row["text"] for row in rows], [names.index(row["label"]) for row in rows]


def count_batch(size: Size, lengths: Sequence[int], longest: int, head: bool) -> dict[str, float]:
    """What is in a batch of texts that are padded to the longest, and the operations that it takes with and without."""
    return {
        "texts": len(lengths),
        "tokens": sum(lengths),
        "positions": len(lengths) * longest,
        "operations": len(lengths) * size.count_operations(longest, head),
        "operations on text": sum(size.count_operations(length, head) for length in lengths),
    }


def write_tokenizer(folder: Path, vocabulary: int) -> Path:
    """A tokenizer of exactly this size for the corpus in `folder`, in a folder of its own."""
    from greffe.tokenization import read_corpus, save_tokenizer, train_tokenizer

    path = folder / f"tokenizer-{vocabulary}"
    if path.exists():
        return path
    if vocabulary > _LARGEST_LEARNED:
        tokenizer = make_word_tokenizer(read_lines(folder / "corpus.txt"), vocabulary)
    else:
        tokenizer = train_tokenizer(read_corpus(folder / "corpus.txt"), vocabulary)
    if len(tokenizer) != vocabulary:
        raise ValueError(
            f"expected text enough to learn {vocabulary:,} tokens, found {len(tokenizer):,}; bring a larger --corpus"
        )
    save_tokenizer(tokenizer, path)
    return path


def make_word_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """The commonest words and signs of the texts; if there are too few, tokens that no text has fill it up."""
    from greffe.tokenization.fast_tokenizer import wrap_backend
    from greffe.tokenization.training import SPECIAL_TOKENS
    from tokenizers import Tokenizer, models, pre_tokenizers

    cut = pre_tokenizers.Whitespace()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in cut.pre_tokenize_str(text))
    names = [*map(str, SPECIAL_TOKENS.values()), "<unk>"]
    names += [word for word, _ in counts.most_common(vocabulary - len(names))]
    names += [f"<unused {index}>" for index in range(vocabulary - len(names))]
    backend = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = cut
    return wrap_backend(backend, {**SPECIAL_TOKENS, "unk_token": "<unk>"})


__all__ = [
    "Workload",
    "count_batch",
    "make_word_tokenizer",
    "read_labelled_lines",
    "read_lines",
    "write_corpus",
    "write_labelled",
    "write_tokenizer",
]
