"""A corpus into rows of tokens: tokenised once and cached, then packed without padding.

Nothing is dropped but the last incomplete row of the training part, and its tokens are counted.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from greffe import tokenization
from greffe.tokenization import Corpus, encode_documents

# Documents that are tokenised at once: the tokenizers library spreads a batch over the cores.
_BATCH = 1000


@dataclass(frozen=True)
class TokenizedCorpus:
    """The documents of both parts as ids, on disk, and the hash that names them."""

    train: Any  # datasets.Dataset of {"input_ids": [...], "bytes": n}, a row a document
    validation: Any
    fingerprint: str


def tokenize_corpus(corpus: Corpus, tokenizer: Any, validation_fraction: float, seed: int) -> TokenizedCorpus:
    """Tokenise every document, or find that done: any change of text, tokenizer, split or code is another name."""
    import datasets

    fingerprint = fingerprint_corpus(corpus, tokenizer, validation_fraction, seed)
    features = datasets.Features(
        {"input_ids": datasets.List(datasets.Value("int32")), "bytes": datasets.Value("int64")}
    )
    parts = {}
    for part in ("train", "validation"):
        arguments = {"corpus": corpus, "tokenizer": tokenizer, "fraction": validation_fraction, "seed": seed}
        try:
            parts[part] = datasets.Dataset.from_generator(
                encode_part,
                features=features,
                gen_kwargs={**arguments, "part": part},
                fingerprint=f"{fingerprint}-{part}",
            )
        except ValueError as error:  # the library's answer to a part without documents
            if "corresponds to no data" not in str(error):
                raise
            parts[part] = datasets.Dataset.from_dict({"input_ids": [], "bytes": []}, features=features)
    if not len(parts["train"]):
        raise ValueError(f"expected documents to train on, found none in {corpus.files[0]}…; lower validation_fraction")
    return TokenizedCorpus(**parts, fingerprint=fingerprint)


def fingerprint_corpus(corpus: Corpus, tokenizer: Any, *settings: Any) -> str:
    """A hash of all that the ids depend on: the bytes of the files, the tokenizer, the settings and the code."""
    reading = (corpus.text_column, corpus.separator, corpus.errors)
    digest = hashlib.sha256(repr((reading, settings)).encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    code = [Path(__file__), *sorted(Path(tokenization.__path__[0]).glob("*.py"))]
    for path in [*code, *corpus.files]:
        digest.update(str(path.name).encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:32]


def encode_part(corpus: Corpus, tokenizer: Any, fraction: float, seed: int, part: str) -> Iterator[dict[str, Any]]:
    """The documents of one part with their ids. The text alone decides its part: copies of it stay together."""
    chosen = (text for text in corpus if is_validation(text, fraction, seed) == (part == "validation"))
    while batch := list(islice(chosen, _BATCH)):
        for text, ids in zip(batch, encode_documents(tokenizer, batch), strict=True):
            yield {"input_ids": ids, "bytes": len(text.encode())}


def is_validation(text: str, fraction: float, seed: int) -> bool:
    salt = seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < fraction * 2**64


class PackedRows:
    """The training part as rows of `block_size` tokens; a document that does not fit goes on in the next row.

    The tokens stay where `datasets` has them, in memory-mapped chunks.
    """

    def __init__(self, documents: Any, block_size: int):
        column = documents.data.column("input_ids")
        self._chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
        self._ends = list(accumulate(map(len, self._chunks)))
        self.block_size = block_size
        self.total_tokens = self._ends[-1]
        self.dropped_tokens = self.total_tokens % block_size
        self.epoch = 0  # masks are drawn anew in each
        if self.total_tokens < block_size:
            raise ValueError(
                f"expected at least one row of block_size={block_size} tokens, found {self.total_tokens} tokens; "
                "lower --block_size or bring more text"
            )

    def __len__(self) -> int:
        return self.total_tokens // self.block_size

    def __getitem__(self, index: int) -> dict[str, Any]:
        start, stop = index * self.block_size, (index + 1) * self.block_size
        return {"input_ids": self._slice(start, stop), "draw": (self.epoch, index)}

    def _slice(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        chunk = bisect_right(self._ends, start)
        while start < stop:
            offset = self._ends[chunk] - len(self._chunks[chunk])
            piece = self._chunks[chunk][start - offset : stop - offset]
            pieces.append(piece)
            start += len(piece)
            chunk += 1
        return np.concatenate(pieces)


def cut_documents(documents: Iterable[list[int]], block_size: int) -> Iterator[np.ndarray]:
    """Each document in rows of its own, of at most `block_size` tokens, whose first token is only context.

    So each token of a document but its first is predicted once, whatever the size of batches and rows.
    """
    for document in documents:
        for start in range(0, max(1, len(document) - 1), block_size - 1):
            yield np.asarray(document[start : start + block_size])
