"""What each token of a vocabulary spells of a word: letters, marks and numbers, in lower case."""

from __future__ import annotations

import unicodedata

from transformers import PreTrainedTokenizerFast

from .display import piece_bytes


def spell_tokens(tokenizer: PreTrainedTokenizerFast) -> list[tuple[bytes, bool]]:
    """For each id its part of a word, in UTF-8, empty where it has none, and whether a word begins with it.

    One does where something else stands first in the token, such as a space. One begins after a token without a part of
    a word too, but only the text tells.
    """
    special = set(tokenizer.all_special_ids)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return [
        (b"", False) if number in special else spell(piece_bytes(tokenizer, token))
        for number, token in enumerate(tokens)
    ]


def spell(piece: bytes) -> tuple[bytes, bool]:
    """The part of a word that some bytes have, and whether something else stands before it."""
    try:
        text = piece.decode("utf-8")
    except UnicodeDecodeError:  # with a part of a character: of a letter, unless it is a long one, such as an emoji
        return (b"" if max(piece) >= 0xF0 else piece.strip().lower()), piece[:1].isspace()
    letters = "".join(character for character in text if is_part_of_word(character))
    return letters.lower().encode("utf-8"), bool(letters) and not is_part_of_word(text[0])


def is_part_of_word(character: str) -> bool:
    """As the borders have it that pieces do not cross: letters, marks and numbers."""
    return unicodedata.category(character)[0] in "LMN"


__all__ = ["spell_tokens"]
