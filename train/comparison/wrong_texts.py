"""The texts that a model gets wrong with the most confidence: mistakes of the model, or of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .results import largest_budget, select_runs
from .words import one_line

SHOWN = 12
LONGEST = 400  # characters of a text


@dataclass(frozen=True)
class WrongText:
    text: str
    true: str
    predicted: str
    # Of the predicted label, mean over the seeds.
    probability: float


def find_wrong_texts(results: dict[str, Any], method: str = "pretrained") -> list[WrongText]:
    """Of the method at its largest budget, by the mean of the probabilities over seeds, the surest mistake first."""
    budget = largest_budget(results, method)
    if budget is None:
        return []
    runs = select_runs(results, method, budget)
    probabilities = np.mean([run["predictions"] for run in runs], axis=0)  # (texts, labels)
    predicted, true = probabilities.argmax(axis=1), np.asarray(results["test"]["labels"])
    sureness = probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != true)
    surest = wrong[np.argsort(-sureness[wrong], kind="stable")][:SHOWN]
    labels, texts = results["labels"], results["test"]["texts"]
    return [
        WrongText(one_line(texts[row], LONGEST), labels[true[row]], labels[predicted[row]], float(sureness[row]))
        for row in surest
    ]


__all__ = ["WrongText", "find_wrong_texts"]
