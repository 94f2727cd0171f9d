"""Pieces that people can read, in columns that line up."""

from __future__ import annotations

import pytest
from greffe.tokenization import train_tokenizer
from greffe.tokenization.display import format_pieces


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["le livre été 中文 ici"] * 30, vocab_size=300)


def test_the_whole_table(tokenizer):
    shown = format_pieces(tokenizer, " été 中文 livre</s>é\u0301\n🎉")
    ids = tokenizer(" été 中文 livre</s>é\u0301\n🎉")["input_ids"]
    pieces = ["<s>", "' été'", "' 中文'", "' livre'", "'<'", "'/'", "'s'", "'>'", "'é'"]
    marks = ["b'\\xcc'", "b'\\x81'", "'\\n'", *(f"b'\\x{byte:02x}'" for byte in "🎉".encode())]
    rows = [line.rsplit(maxsplit=1) for line in shown.splitlines()[:-2]]
    assert rows == [["piece", "id"], *([piece, str(i)] for piece, i in zip([*pieces, *marks], ids, strict=True))]
    assert shown.endswith("\n\n16 tokens: 15 pieces of text and 1 special; 21 characters, 1.40 a piece")


def test_columns_line_up(tokenizer):
    # In a terminal 中 and 文 take two columns each, so their row has two characters fewer.
    lines = format_pieces(tokenizer, " été 中文 livre").splitlines()
    assert [len(line) for line in lines[:5]] == [len(lines[0])] * 3 + [len(lines[0]) - 2, len(lines[0])]


def test_a_mark_alone_has_something_to_sit_on():
    tokenizer = train_tokenizer(["\u0301"] * 20, vocab_size=300)
    assert "'\u25cc\u0301'" in format_pieces(tokenizer, "\u0301")


def test_no_text(tokenizer):
    assert format_pieces(tokenizer, "").splitlines() == [
        "piece  id",
        "<s>     0",
        "",
        "1 token: 0 pieces of text and 1 special",
    ]


def test_undecodable_argument(tokenizer):
    with pytest.raises(ValueError, match="lone surrogate at character 1 of the text"):
        format_pieces(tokenizer, "a\udce9")
