"""The reference experiment's SentencePiece model and dictionary as a fast tokenizer, with exactly the same ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .fast_tokenizer import MODEL_MAX_LENGTH, wrap_backend
from .pretokenized import SPECIAL_TOKENS, read_dictionary

# Field numbers of sentencepiece_model.proto.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_KIND = 3
_MODEL_TYPE, _WHITESPACE_AS_SUFFIX, _BYTE_FALLBACK = 3, 24, 35
_CHARSMAP, _DUMMY_PREFIX, _REMOVE_EXTRA_WHITESPACES, _ESCAPE_WHITESPACES = 2, 3, 4, 5
# Values of its enumerations.
_NORMAL, _USER_DEFINED = 1, 4
_BPE = 2

_SPACE = "\u2581"  # ▁, how SentencePiece writes the space before a word
# SentencePiece's own first ids (<unk>, <s>, </s>) are three, the experiment's are four.
_SHIFT = 1


def import_sentencepiece(
    model: str | os.PathLike[str], dictionary: str | os.PathLike[str], *, model_max_length: int = MODEL_MAX_LENGTH
) -> PreTrainedTokenizerFast:
    """Convert a SentencePiece BPE model, with the ids of the experiment's dictionary.

    The result is compared with SentencePiece itself on every piece of the dictionary before it is returned. One
    difference is known: `tokenizers` normalises the marks on a compatibility character (½, ①, 𝑒 or Ａ followed by a
    combining accent) together with it, and loses or separates them.
    """
    processor = _load_processor(model)
    vocabulary = read_dictionary(dictionary)
    _check_dictionary(processor, model, vocabulary, dictionary)
    fields = list(_read_fields(processor.serialized_model_proto()))
    trainer, normalizer = (dict(_read_fields(dict(fields)[number])) for number in (_TRAINER, _NORMALIZER))
    kinds = {dict(_read_fields(content)).get(_KIND, _NORMAL) for number, content in fields if number == _PIECE}
    _check_options(kinds, trainer, normalizer, model)

    backend = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=_make_merges(vocabulary),
            unk_token=SPECIAL_TOKENS["unk_token"],
            fuse_unk=True,  # a run of unknown characters is one token
        )
    )
    backend.normalizer = _make_normalizer(normalizer.get(_CHARSMAP, b""))
    # Words never meet in one piece, unless the model was trained so; splitting at them is then only faster.
    crosses_words = any(_SPACE in piece[1:] for piece in vocabulary)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="never", split=not crosses_words)
    backend.decoder = decoders.Metaspace(_SPACE, prepend_scheme="always")
    backend.add_special_tokens(list(SPECIAL_TOKENS.values()))
    tokenizer = wrap_backend(backend, SPECIAL_TOKENS, model_max_length)
    _compare(tokenizer, processor, [piece.replace(_SPACE, " ") for piece in vocabulary])
    return tokenizer


def _load_processor(model: str | os.PathLike[str]) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ImportError(
            "expected the package sentencepiece to read SentencePiece models, found none; install it with "
            "`pip install greffe[sentencepiece]`"
        ) from error
    if not Path(model).is_file():
        raise FileNotFoundError(f"expected a SentencePiece model, found no file {model}")
    content = Path(model).read_bytes()
    try:
        return SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError(
            f"expected a SentencePiece model, found something else in {model} ({len(content):,} bytes)"
        ) from error


def _check_dictionary(
    processor: Any, model: str | os.PathLike[str], vocabulary: dict[str, int], dictionary: str | os.PathLike[str]
) -> None:
    pieces = {token: token_id for token, token_id in vocabulary.items() if token_id >= len(SPECIAL_TOKENS)}
    if processor.get_piece_size() + _SHIFT != len(vocabulary):
        raise ValueError(
            f"expected a dictionary of the {processor.get_piece_size() + _SHIFT - len(SPECIAL_TOKENS):,} pieces of "
            f"{model}, found {len(pieces):,} in {dictionary}; give the two files that were made together"
        )
    for piece, token_id in pieces.items():
        found = processor.id_to_piece(token_id - _SHIFT)
        if found != piece:
            raise ValueError(
                f"expected the pieces of {model} in the same order, found {piece!r} on line "
                f"{token_id - len(SPECIAL_TOKENS) + 1:,} of {dictionary} in place of {found!r}; give the two files "
                "that were made together"
            )


def _check_options(
    kinds: set[int], trainer: dict[int, Any], normalizer: dict[int, Any], model: str | os.PathLike[str]
) -> None:
    """Refuse the kinds of model that would not be converted exactly."""
    refusals = {
        "a BPE model (--model_type=bpe)": trainer.get(_MODEL_TYPE, 1) != _BPE,
        "--byte_fallback=false": trainer.get(_BYTE_FALLBACK, 0) != 0,
        "no symbols of its own (--user_defined_symbols)": _USER_DEFINED in kinds,
        "--treat_whitespace_as_suffix=false": trainer.get(_WHITESPACE_AS_SUFFIX, 0) != 0,
        "--add_dummy_prefix=true": normalizer.get(_DUMMY_PREFIX, 1) == 0,
        "--remove_extra_whitespaces=true": normalizer.get(_REMOVE_EXTRA_WHITESPACES, 1) == 0,
        "whitespace escaped as ▁": normalizer.get(_ESCAPE_WHITESPACES, 1) == 0,
    }
    refused = [option for option, wrong in refusals.items() if wrong]
    if refused:
        raise ValueError(f"expected a SentencePiece model trained with {', '.join(refused)}, found {model} without")


def _make_merges(vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """All ways to make each piece of two others, in the order of the dictionary, which is that of its scores."""
    merges = []
    for piece, token_id in vocabulary.items():
        if token_id < len(SPECIAL_TOKENS):
            continue
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in splits if left in vocabulary and right in vocabulary]
        merges += sorted(known, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    return merges


def _make_normalizer(charsmap: bytes) -> normalizers.Normalizer:
    """SentencePiece's own table of characters, then no space at the ends or twice in a row, then ▁ in front."""
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(charsmap)] if charsmap else []
    steps += [
        normalizers.Replace(Regex(r"\A +"), ""),
        normalizers.Replace(Regex(rf"[ {_SPACE}]+\z"), ""),  # SentencePiece strips ▁ here, though not in front
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Prepend(_SPACE),  # unlike Metaspace, also before a text that starts with ▁
    ]
    return normalizers.Sequence(steps)


def _compare(tokenizer: PreTrainedTokenizerFast, processor: Any, texts: list[str]) -> None:
    for text, ids in zip(texts, tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True):
        expected = [
            tokenizer.unk_token_id if piece_id == processor.unk_id() else piece_id + _SHIFT
            for piece_id in processor.encode(text)
        ]
        if ids != expected:
            raise ValueError(
                f"expected the pieces of SentencePiece for {text!r}, "
                f"{tokenizer.convert_ids_to_tokens(expected)}, found {tokenizer.convert_ids_to_tokens(ids)}: this kind "
                "of model cannot be imported exactly"
            )


def _read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message by number, so that the charsmap can be read without protobuf installed."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        length, position = _read_varint(message, position) if wire_type == 2 else ({1: 8, 5: 4}[wire_type], position)
        yield number, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


__all__ = ["import_sentencepiece"]
