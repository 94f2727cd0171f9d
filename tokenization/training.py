"""A tokenizer learned from a stream of documents: byte-level BPE or Unigram, lossless on any Unicode text.

Both work on the 256 bytes of UTF-8, so nothing is unknown to them and no `<unk>` is needed. Nothing is normalised:
what is decoded is what was encoded. With `lowercase`, and only then, the case is lost and nothing else: what is
decoded is each character in lower case by itself, whatever stands beside it (a Greek Σ is σ at the end of a word too).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from .corpus import Corpus
from .fast_tokenizer import MODEL_MAX_LENGTH, check_max_length, wrap_backend

Algorithm = Literal["bpe", "unigram"]

# In the order of their ids: 0, 1 and 2 are the defaults of GreffeConfig.
SPECIAL_TOKENS: dict[str, str | AddedToken] = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    # In a prompt it takes the space before it, as the piece that it stands for does.
    "mask_token": AddedToken("<mask>", lstrip=True, normalized=False, special=True),
}
SMALLEST_VOCABULARY = 256 + len(SPECIAL_TOKENS)

# Pieces do not cross these borders: words with their accents, numbers, other signs, each with the space before it.
# GPT-2's pattern without its English contractions ('s, 't, 'll), and with combining marks inside words. No piece can
# spell a control token: "<" and "s" are always apart. The limit is above any word: without it, the time that a long run
# takes (base64, a genome, a ruled line) would grow with the square of its length.
_WORDS = r" ?[\p{L}\p{M}]{1,256}| ?\p{N}{1,256}| ?[^\s\p{L}\p{M}\p{N}]{1,256}|\s{1,256}(?!\S)|\s{1,256}"


def train_tokenizer(
    documents: Iterable[str],
    vocab_size: int = 8192,
    algorithm: Algorithm = "bpe",
    *,
    lowercase: bool = False,
    model_max_length: int = MODEL_MAX_LENGTH,
    progress: bool = False,
) -> PreTrainedTokenizerFast:
    """Learn a tokenizer from documents, such as `read_corpus(…)`, reading them once and keeping none.

    With `lowercase` the tokenizer lower-cases every text, these too: a small corpus does not show often enough that
    "Excellent" and "excellent" are one word. Offsets are those of the text as it was.

    A corpus with too little to learn gives fewer than `vocab_size` tokens. The same documents give the same file,
    byte for byte, whatever the number of threads.
    """
    if algorithm not in get_args(Algorithm):
        raise ValueError(f"expected algorithm among {list(get_args(Algorithm))}, found {algorithm!r}")
    if vocab_size < SMALLEST_VOCABULARY:
        raise ValueError(
            f"expected vocab_size of at least {SMALLEST_VOCABULARY} (256 bytes and {len(SPECIAL_TOKENS)} special "
            f"tokens), found {vocab_size}"
        )
    if isinstance(documents, (str, os.PathLike)):
        raise TypeError(f"expected documents, found one string or path: {documents!r:.60}; pass read_corpus(path)")
    check_max_length(model_max_length)
    backend = Tokenizer(models.BPE() if algorithm == "bpe" else models.Unigram())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(_count(documents, progress), _make_trainer(algorithm, vocab_size))
    if algorithm == "unigram":
        backend = _settle_unigram(backend)
    return wrap_backend(backend, SPECIAL_TOKENS, model_max_length)


def _make_trainer(algorithm: Algorithm, vocab_size: int) -> Any:
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(SPECIAL_TOKENS.values()),
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),  # every byte, seen or not
        "show_progress": False,  # the library's bars count documents and do not know the total
    }
    return trainers.BpeTrainer(min_frequency=2, **common) if algorithm == "bpe" else trainers.UnigramTrainer(**common)


def _count(documents: Iterable[str], progress: bool) -> Iterator[str]:
    """Pass the documents on, show how far the reading is, and refuse to learn from nothing."""
    # Of a corpus it tells how much is left, unless that is unknown: a dataset of the Hub.
    corpus = documents if isinstance(documents, Corpus) and documents.total_bytes is not None else None
    units: dict[str, Any] = (
        {"total": corpus.total_bytes, "unit": "B", "unit_scale": True} if corpus is not None else {"unit": " documents"}
    )
    empty = True
    # Off where nobody looks: `disable=None` writes no bar unless standard error is a terminal.
    with tqdm(desc="reading", disable=None if progress else True, **units) as bar:
        for document in documents:
            empty = False
            yield document
            bar.update(corpus.bytes_read - bar.n if corpus is not None else 1)
        if corpus is not None:
            bar.update(corpus.bytes_read - bar.n)
        bar.set_description("learning")
        bar.refresh()
    if empty:
        raise ValueError("expected at least one document, found none")


def _settle_unigram(backend: Tokenizer) -> Tokenizer:
    """The same Unigram model whatever the order in which the trainer's threads and hash tables added their sums.

    The trainer prunes by whole counts, and found the same pieces in every run that was compared; but their scores vary
    in the last digits, and the bytes that the corpus lacks get scores up to 0.0256 above the lowest in a random order.
    """
    state = json.loads(backend.to_str())
    specials = state["model"]["vocab"][: len(SPECIAL_TOKENS)]
    pieces = state["model"]["vocab"][len(SPECIAL_TOKENS) :]
    lowest = min(score for piece, score in pieces if len(piece) == 1)
    settled = [
        [piece, round(lowest if len(piece) == 1 and score < lowest + 0.03 else score, 4)] for piece, score in pieces
    ]
    state["model"]["vocab"] = specials + sorted(settled, key=lambda entry: (-entry[1], entry[0]))
    return Tokenizer.from_str(json.dumps(state))


__all__ = ["SMALLEST_VOCABULARY", "SPECIAL_TOKENS", "Algorithm", "train_tokenizer"]
