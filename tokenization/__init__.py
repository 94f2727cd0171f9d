"""How text becomes ids.

Names are imported when first used: the command line and the corpus reader do not wait for transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compatibility import check_compatible
    from .corpus import Corpus, read_corpus
    from .fast_tokenizer import encode_documents, load_tokenizer, save_tokenizer
    from .pretokenized import Pretokenized, read_dictionary, read_pretokenized
    from .sentencepiece_import import import_sentencepiece
    from .training import train_tokenizer

_MODULES = {
    "Corpus": "corpus",
    "Pretokenized": "pretokenized",
    "check_compatible": "compatibility",
    "encode_documents": "fast_tokenizer",
    "import_sentencepiece": "sentencepiece_import",
    "load_tokenizer": "fast_tokenizer",
    "read_corpus": "corpus",
    "read_dictionary": "pretokenized",
    "read_pretokenized": "pretokenized",
    "save_tokenizer": "fast_tokenizer",
    "train_tokenizer": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


__all__ = [
    "Corpus",
    "Pretokenized",
    "check_compatible",
    "encode_documents",
    "import_sentencepiece",
    "load_tokenizer",
    "read_corpus",
    "read_dictionary",
    "read_pretokenized",
    "save_tokenizer",
    "train_tokenizer",
]
