"""What a trained model is used for: predict, evaluate, generate, explain, export.

Names are imported when first used: the command line does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import Classifier, Prediction, load_classifier
    from .language_model import LanguageModel, load_language_model

_MODULES = {
    "Classifier": "classifier",
    "LanguageModel": "language_model",
    "Prediction": "classifier",
    "load_classifier": "classifier",
    "load_language_model": "language_model",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


__all__ = ["Classifier", "LanguageModel", "Prediction", "load_classifier", "load_language_model"]
