"""A corpus into rows of tokens: tokenised once and cached, then packed without padding, or a document a row.

Nothing is dropped but the last incomplete row of what is packed, and its tokens are counted.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from greffe import tokenization
from greffe.tokenization import Corpus, encode_documents

from .full_disk import explain_full_disk

# What is tokenised at once: enough documents to spread over the cores, and not so many books that memory ends.
_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 1000, 1 << 20
# What to do when the tokenised corpus does not fit where `datasets` keeps it.
_ROOM = "free some space, set HF_DATASETS_CACHE to a folder that has it, or pass --streaming"


@dataclass(frozen=True)
class TokenizedCorpus:
    """The documents of both parts as ids, and the hash that names them."""

    train: Any  # datasets.Dataset of {"input_ids": [...], "bytes": n}, a row a document; a stream of the same
    validation: Any  # datasets.Dataset
    fingerprint: str


def tokenize_corpus(corpus: Corpus, tokenizer: Any, validation_fraction: float, seed: int) -> TokenizedCorpus:
    """Tokenise every document, or find that done: any change of text, tokenizer, split or code is another name."""
    import datasets

    fingerprint = fingerprint_corpus(corpus, tokenizer, validation_fraction, seed)
    features = document_features()
    cache = Path(datasets.config.HF_DATASETS_CACHE)
    parts = {}
    for part in ("train", "validation"):
        arguments = {"corpus": corpus, "tokenizer": tokenizer, "fraction": validation_fraction, "seed": seed}
        try:
            with explain_full_disk(cache, _ROOM):
                parts[part] = datasets.Dataset.from_generator(
                    encode_part,
                    features=features,
                    gen_kwargs={**arguments, "part": part},
                    fingerprint=f"{fingerprint}-{part}",
                )
        except datasets.exceptions.DatasetGenerationError as error:  # the library's word for any error of the reader
            raise (error.__cause__ or error) from None
        except ValueError as error:  # the library's answer to a part without documents
            if "corresponds to no data" not in str(error):
                raise
            parts[part] = datasets.Dataset.from_dict({"input_ids": [], "bytes": []}, features=features)
    if not len(parts["train"]):
        raise ValueError(
            f"expected documents to train on, found none in {corpus.sources[0]}…; lower validation_fraction"
        )
    return TokenizedCorpus(**parts, fingerprint=fingerprint)


def document_features() -> Any:
    import datasets

    return datasets.Features({"input_ids": datasets.List(datasets.Value("int32")), "bytes": datasets.Value("int64")})


def fingerprint_corpus(corpus: Corpus, tokenizer: Any, *settings: Any) -> str:
    """A hash of all that the ids depend on: the bytes of the files, the tokenizer, the settings and the code.

    A dataset of the Hub is its name and commit. Of a saved one the files of rows count, not the state beside them,
    whose fingerprint tells how the rows were made and not what they are.
    """
    reading = (corpus.text_column, corpus.separator, corpus.errors)
    digest = hashlib.sha256(repr((reading, settings)).encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    code = [Path(__file__), *sorted(Path(tokenization.__path__[0]).glob("*.py"))]
    for source in [*code, *corpus.sources]:
        if not isinstance(source, Path):
            digest.update(str(source).encode())
            continue
        digest.update(str(source.name).encode())
        with source.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:32]


def encode_part(corpus: Corpus, tokenizer: Any, fraction: float, seed: int, part: str) -> Iterator[dict[str, Any]]:
    """The documents of one part with their ids. The text alone decides its part: copies of it stay together."""
    chosen = (text for text in corpus if is_validation(text, fraction, seed) == (part == "validation"))
    for batch in _batches(chosen):
        for text, ids in zip(batch, encode_documents(tokenizer, batch), strict=True):
            yield {"input_ids": ids, "bytes": len(text.encode())}


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == _BATCH_DOCUMENTS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def is_validation(text: str, fraction: float, seed: int) -> bool:
    salt = seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < fraction * 2**64


class _Tokens:
    """The tokens of all documents, one after the other, where `datasets` has them: in memory-mapped chunks."""

    def __init__(self, documents: Any):
        column = documents.data.column("input_ids")
        self._chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
        self._ends = list(accumulate(map(len, self._chunks)))

    def __len__(self) -> int:
        return self._ends[-1]

    def cut(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        chunk = bisect_right(self._ends, start)
        while start < stop:
            offset = self._ends[chunk] - len(self._chunks[chunk])
            piece = self._chunks[chunk][start - offset : stop - offset]
            pieces.append(piece)
            start += len(piece)
            chunk += 1
        return np.concatenate(pieces)


class PackedRows:
    """The training part as rows of `block_size` tokens; a document that does not fit goes on in the next row."""

    def __init__(self, documents: Any, block_size: int):
        self._tokens = _Tokens(documents)
        self.block_size = self.tokens_per_row = block_size
        self.documents = len(documents)
        self.total_tokens = len(self._tokens)
        self.dropped_tokens = self.total_tokens % block_size
        self.epoch = 0  # masks are drawn anew in each
        check_rows(self.total_tokens // block_size, self.total_tokens, block_size)

    def __len__(self) -> int:
        return self.total_tokens // self.block_size

    def __getitem__(self, index: int) -> dict[str, Any]:
        start, stop = index * self.block_size, (index + 1) * self.block_size
        return {"input_ids": self._tokens.cut(start, stop), "draw": (self.epoch, index)}

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents to train on, {self.total_tokens:,} tokens in {len(self):,} rows of "
            f"{self.block_size} ({self.dropped_tokens} tokens of the last row dropped)"
        )


class DocumentRows:
    """The training part with each document in rows of its own, as `cut_documents` cuts them; batches are padded."""

    def __init__(self, documents: Any, block_size: int):
        import pyarrow.compute

        self._tokens = _Tokens(documents)
        lengths = pyarrow.compute.list_value_length(documents.data.column("input_ids")).to_numpy().astype(np.int64)
        pieces = np.maximum(1, -(-(lengths - 1) // (block_size - 1)))  # a division that rounds up
        self._ends = np.cumsum(lengths)  # of each document among the tokens
        self._starts = self._ends - lengths
        self._first_rows = np.cumsum(pieces) - pieces
        self._rows = int(pieces.sum())
        self.block_size = block_size
        self.documents = len(documents)
        self.total_tokens, self.dropped_tokens = len(self._tokens), 0
        self.tokens_per_row = round(self.total_tokens / self._rows)
        self.epoch = 0  # masks are drawn anew in each

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        document = int(np.searchsorted(self._first_rows, index, side="right")) - 1
        piece = index - int(self._first_rows[document])
        start = int(self._starts[document]) + piece * (self.block_size - 1)
        stop = min(start + self.block_size, int(self._ends[document]))
        return {"input_ids": self._tokens.cut(start, stop), "draw": (self.epoch, index)}

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents to train on, {self.total_tokens:,} tokens in {len(self):,} rows of at most "
            f"{self.block_size}"
        )


def check_rows(rows: int, tokens: int, block_size: int) -> None:
    if rows == 0:
        raise ValueError(
            f"expected at least one row of block_size={block_size} tokens, found {tokens} tokens; "
            "lower --block_size or bring more text"
        )


def pack_documents(documents: Iterable[Sequence[int]], block_size: int) -> Iterator[np.ndarray]:
    """The rows of `PackedRows` from a stream of documents."""
    rest = np.empty(0, dtype=np.int32)
    for document in documents:
        rest = np.concatenate([rest, np.asarray(document, dtype=np.int32)])
        whole = len(rest) - len(rest) % block_size
        for start in range(0, whole, block_size):
            yield rest[start : start + block_size].copy()  # a view would keep the whole document in memory
        rest = rest[whole:]


def cut_documents(documents: Iterable[Sequence[int]], block_size: int) -> Iterator[np.ndarray]:
    """Each document in rows of its own, of at most `block_size` tokens, whose first token is only context.

    So each token of a document but its first is predicted once, whatever the size of batches and rows.
    """
    for document in documents:
        for start in range(0, max(1, len(document) - 1), block_size - 1):
            yield np.asarray(document[start : start + block_size])
