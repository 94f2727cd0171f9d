"""The classifier that a sceptic would use, with the settings of `greffe compare`'s baseline."""

from __future__ import annotations

from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from .gate import StepCounter
from .workload import Workload, read_labelled_lines


def classify(gate: StepCounter, workload: Workload) -> None:
    """A step is all texts."""
    texts, labels = read_labelled_lines(workload.labelled)
    model = fit(texts, labels)
    while True:
        model.predict(texts)
        gate.step(texts=len(texts))


def classify_one(gate: StepCounter, workload: Workload) -> None:
    """A step is one text, alone."""
    texts, labels = read_labelled_lines(workload.labelled)
    model = fit(texts, labels)
    while True:
        for text in texts[: workload.steps]:
            model.predict([text])
            gate.step(texts=1)


def fit(texts: list[str], labels: list[int]) -> Any:
    vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    return make_pipeline(vectoriser, LogisticRegression(C=10.0, max_iter=2000)).fit(texts, labels)


__all__ = ["classify", "classify_one", "fit"]
