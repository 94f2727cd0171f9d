"""What a trained model is used for: predict, evaluate, generate, explain, export.

Names are imported when first used: the command line does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import Classifier, Prediction, load_classifier
    from .evaluation import Evaluation, evaluate_classifier, evaluate_language_model
    from .explanation import Explanation, explain
    from .faithfulness import Faithfulness, deletion_faithfulness
    from .language_model import LanguageModel, load_language_model
    from .onnx_check import ExportReport
    from .onnx_export import export_onnx
    from .prediction_job import predict_file

_MODULES = {
    "Classifier": "classifier",
    "Evaluation": "evaluation",
    "Explanation": "explanation",
    "ExportReport": "onnx_check",
    "Faithfulness": "faithfulness",
    "LanguageModel": "language_model",
    "Prediction": "classifier",
    "deletion_faithfulness": "faithfulness",
    "evaluate_classifier": "evaluation",
    "evaluate_language_model": "evaluation",
    "explain": "explanation",
    "export_onnx": "onnx_export",
    "load_classifier": "classifier",
    "load_language_model": "language_model",
    "predict_file": "prediction_job",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


__all__ = [
    "Classifier",
    "Evaluation",
    "Explanation",
    "ExportReport",
    "Faithfulness",
    "LanguageModel",
    "Prediction",
    "deletion_faithfulness",
    "evaluate_classifier",
    "evaluate_language_model",
    "explain",
    "export_onnx",
    "load_classifier",
    "load_language_model",
    "predict_file",
]
