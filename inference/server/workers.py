"""A model with the thread that it works in: a batcher for a classifier, a writer for a language model."""

from __future__ import annotations

import os

from greffe.inference import load_classifier, load_language_model
from greffe.inference.model_folder import find_model

from .batching import Batcher
from .limits import Limits
from .metrics import Metrics
from .writing import Writer

Worker = Batcher | Writer


def load_worker(model: str | os.PathLike[str], limits: Limits, metrics: Metrics) -> Worker:
    """What the head of the model is good for; one that can neither classify nor write is refused, with a remedy."""
    _, head = find_model(model)
    if head == "GreffeForSequenceClassification":
        return Batcher(load_classifier(model), limits, metrics)
    return Writer(load_language_model(model), limits, metrics)


def load_pair(
    model: str | os.PathLike[str], other: str | os.PathLike[str], limits: Limits, metrics: Metrics
) -> tuple[Worker, Worker]:
    """Two models that do the same work, to be compared."""
    first, second = load_worker(model, limits, metrics), load_worker(other, limits, metrics)
    if type(first) is not type(second):
        raise ValueError(
            f"expected two models of one kind, found {describe_kind(first)} in {model} and {describe_kind(second)} in "
            f"--compare {other}"
        )
    return first, second


def describe_kind(worker: Worker) -> str:
    return "a classifier" if isinstance(worker, Batcher) else "a language model"


__all__ = ["Worker", "describe_kind", "load_pair", "load_worker"]
