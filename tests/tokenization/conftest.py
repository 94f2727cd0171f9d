"""A small corpus, and the tokenizers learned from it."""

from __future__ import annotations

import pytest
from greffe.tokenization import train_tokenizer
from invented_text import make_documents


@pytest.fixture(scope="session")
def documents():
    return make_documents()


@pytest.fixture(scope="session")
def bpe(documents):
    return train_tokenizer(documents, vocab_size=500, algorithm="bpe")


@pytest.fixture(scope="session")
def unigram(documents):
    return train_tokenizer(documents, vocab_size=500, algorithm="unigram")
