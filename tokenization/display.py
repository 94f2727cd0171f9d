"""How a tokenizer cuts a text, for people to read."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

from transformers import PreTrainedTokenizerFast

from .fast_tokenizer import check_unicode

_SPACE = "\u2581"  # ▁, the space of SentencePiece


def format_pieces(tokenizer: PreTrainedTokenizerFast, text: str) -> str:
    """A table of pieces and ids, then how many characters a piece covers on average.

    Pieces of text are quoted, control tokens are not; bytes that are only part of a character are shown as b'\\xc3'.
    """
    check_unicode(text, "the text")
    encoding = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    rows = [("piece", "id")]
    for token_id, (start, end), special in zip(
        encoding["input_ids"], encoding["offset_mapping"], encoding["special_tokens_mask"], strict=True
    ):
        token = tokenizer.convert_ids_to_tokens([token_id])[0]
        if token_id == tokenizer.unk_token_id:
            rows.append((f"{token} {_quote(text[start:end])}", str(token_id)))
        else:
            rows.append((token if special else _readable(tokenizer, token), str(token_id)))
    width, id_width = max(_columns(piece) for piece, _ in rows), max(len(token_id) for _, token_id in rows)
    lines = [piece + " " * (width - _columns(piece)) + f"  {token_id:>{id_width}}" for piece, token_id in rows]
    return "\n".join([*lines, "", _summarize(len(text), encoding["special_tokens_mask"])])


def _summarize(characters: int, special: list[int]) -> str:
    pieces = len(special) - sum(special)
    total = f"{_count(len(special), 'token')}: {_count(pieces, 'piece')} of text and {sum(special):,} special"
    return f"{total}; {_count(characters, 'character')}, {characters / pieces:.2f} a piece" if pieces else total


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def piece_bytes(tokenizer: PreTrainedTokenizerFast, token: str) -> bytes:
    """What a token stands for in a text, in UTF-8; it may be a part of a character."""
    decoder: Any = tokenizer.backend_tokenizer.decoder
    if type(decoder).__name__ != "ByteLevel":
        return token.replace(_SPACE, " ").encode("utf-8")
    table = _bytes_of_characters()
    return bytes(table[character] for character in token)


def _readable(tokenizer: PreTrainedTokenizerFast, token: str) -> str:
    content = piece_bytes(tokenizer, token)
    try:
        return _quote(content.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(content)


def _quote(text: str) -> str:
    # A mark that has nothing to sit on would land on the quote: the dotted circle is what Unicode's charts use.
    alone = text != "" and unicodedata.combining(text[0]) != 0
    return repr(("\u25cc" if alone else "") + text)


@cache
def _bytes_of_characters() -> dict[str, int]:
    """Byte-level tokenizers write each byte as a visible character: itself where it is one, else one after U+0100."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: marks and joiners none, East Asian characters and emoji two."""
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


__all__ = ["format_pieces", "piece_bytes"]
