"""What tokens spell: put together again, the words of a text, whatever the tokenizer and its cuts."""

from __future__ import annotations

import re

import pytest
from greffe.tokenization import train_tokenizer
from greffe.tokenization.spelling import spell_tokens

TEXTS = [
    "L'été, Noémie a lu « À rebours » : EXCELLENT !",
    "excellent… vraiment excellent (10/10), ça me plaît, œuvre d'art ; 3e tome",
    "Un été\u0301 décomposé\u0301, sans-fautes, a_b, Straße, 中文 1984",
]


def join(pieces: list[tuple[bytes, bool]]) -> list[str]:
    words, open_word = [], False
    for letters, begins in pieces:
        if letters and (begins or not open_word):
            words.append(b"")
        if letters:
            words[-1] += letters
        open_word = bool(letters)
    return [word.decode("utf-8") for word in words]


def words_of(text: str) -> list[str]:
    """Letters, numbers and the marks on them; no other sign."""
    return re.findall(r"[^\W_\u0301]+(?:\u0301[^\W_]*)*", text.lower())


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("vocab_size", [380, 400])
def test_the_words_of_a_text(lowercase: bool, vocab_size: int) -> None:
    """Of which every character is whole in some token."""
    tokenizer = train_tokenizer([*TEXTS, *map(" ".join, TEXTS)] * 20, vocab_size, lowercase=lowercase)
    spelling = spell_tokens(tokenizer)
    assert len(spelling) == len(tokenizer)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert join([spelling[token] for token in ids]) == words_of(text)


def test_no_control_token_is_a_word() -> None:
    tokenizer = train_tokenizer(TEXTS * 20, 300)
    assert [spell_tokens(tokenizer)[token] for token in tokenizer.all_special_ids] == [(b"", False)] * 4


def test_an_emoji_does_not_end_up_in_a_word() -> None:
    """Where it is cut into its bytes, the first one separates, and what follows is its own."""
    tokenizer = train_tokenizer([" bon bon"] * 20, 300)
    spelling = spell_tokens(tokenizer)
    first, lead, *rest, last = (spelling[token] for token in tokenizer(" bon😊 bon")["input_ids"][1:])
    assert (first, lead, last) == ((b"bon", True), (b"", False), (b"bon", True))
    assert b"".join(letters for letters, _ in rest) == "😊".encode()[1:]
