"""A corpus that does not fit on the disk a second time: read, tokenised and cut into rows while training goes on.

Nothing is cached. Rows come pass after pass over the corpus, in an order that depends on seed and pass alone, drawn
from a buffer of rows. A resumed run reads again what it had read: that is exact, and reading is much faster than
training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, islice
from typing import Any, TypeVar

import numpy as np
from greffe.tokenization import Corpus
from torch.utils.data import IterableDataset

from .arguments import STREAMED_VALIDATION
from .packing import (
    TokenizedCorpus,
    check_rows,
    cut_documents,
    document_features,
    encode_part,
    fingerprint_corpus,
    pack_documents,
)

Item = TypeVar("Item")


def stream_corpus(corpus: Corpus, tokenizer: Any, validation_fraction: float, seed: int) -> TokenizedCorpus:
    """The parts of `tokenize_corpus`: the first documents of validation, and a way to read those of training anew."""
    import datasets

    read = partial(encode_part, corpus, tokenizer, validation_fraction, seed)
    validation = list(islice(read("validation"), STREAMED_VALIDATION)) if validation_fraction else []
    columns = {name: [document[name] for document in validation] for name in ("input_ids", "bytes")}
    return TokenizedCorpus(
        train=partial(read, "train"),
        validation=datasets.Dataset.from_dict(columns, features=document_features()),
        fingerprint=fingerprint_corpus(corpus, tokenizer, validation_fraction, seed),
    )


class StreamedRows(IterableDataset[dict[str, Any]]):
    """The rows that one run takes: `PackedRows`, or `DocumentRows`, shuffled in a buffer, pass after pass.

    To `Trainer` the whole run is one epoch of known length: so it finds the place again after a stop, and every
    process finds its rows, wherever a pass ends.
    """

    def __init__(
        self,
        read_documents: Callable[[], Iterable[dict[str, Any]]],
        block_size: int,
        *,
        length: int,
        packing: bool,
        buffer_size: int,
        seed: int,
    ):
        self.read_documents = read_documents
        self.block_size, self.packing, self.length = block_size, packing, length
        self.buffer_size, self.seed = buffer_size, seed
        self.tokens_per_row = block_size if packing else None
        # Known when the first pass is over.
        self.documents: int | None = None
        self.total_tokens: int | None = None
        self.dropped_tokens: int | None = None

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return islice(chain.from_iterable(map(self.read_pass, count())), self.length)

    def __str__(self) -> str:
        rows = "packed into rows of" if self.packing else "in rows of their own of at most"
        return f"documents are read while training, {rows} {self.block_size} tokens"

    def read_pass(self, number: int) -> Iterator[dict[str, Any]]:
        """Each row of the corpus once. Its draw of masks tells it by the pass and its place in the corpus."""
        cut = pack_documents if self.packing else cut_documents
        rows = (
            {"input_ids": ids, "draw": (number, index)}
            for index, ids in enumerate(cut(self._count_documents(), self.block_size))
        )
        return shuffle(rows, self.buffer_size, np.random.default_rng([self.seed, number]))

    def _count_documents(self) -> Iterator[list[int]]:
        documents = tokens = 0
        for document in self.read_documents():
            documents += 1
            tokens += len(document["input_ids"])
            yield document["input_ids"]
        self.documents, self.total_tokens = documents, tokens
        self.dropped_tokens = tokens % self.block_size if self.packing else 0
        check_rows(tokens // self.block_size if self.packing else documents, tokens, self.block_size)


def shuffle(items: Iterable[Item], buffer_size: int, draw: np.random.Generator) -> Iterator[Item]:
    """All items, each drawn from the next `buffer_size` ones: in constant memory, whatever their number."""
    items = iter(items)
    buffer = list(islice(items, buffer_size))
    for item in items:
        index = int(draw.integers(buffer_size))
        yield buffer[index]
        buffer[index] = item
    draw.shuffle(buffer)
    yield from buffer
