"""What a sceptic would run: the commonest class, and a linear model on word counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Inverse strengths of the regularisation, from strong to weak; validation chooses.
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def predict_majority(targets: Sequence[int], classes: int, rows: int) -> np.ndarray:
    """The shares of the classes in training, for every text; (rows, classes)."""
    shares = np.bincount(targets, minlength=classes) / len(targets)
    return np.tile(shares, (rows, 1))


def fit_tfidf(
    train: tuple[Sequence[str], Sequence[int]],
    validation: tuple[Sequence[str], Sequence[int]],
    test: Sequence[str],
    classes: int,
) -> tuple[np.ndarray, float, float]:
    """TF-IDF of words and pairs of words, and a logistic regression whose strength is chosen on validation.

    Returns the probabilities of the test texts (rows, classes), the accuracy on validation, and the strength.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    # Words as they are in any script: the library's own pattern drops those of one letter.
    vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
    features, held_out = vectoriser.fit_transform(train[0]), vectoriser.transform(validation[0])
    best: tuple[float, float, Any] | None = None
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000).fit(features, train[1])
        accuracy = float(model.score(held_out, validation[1]))
        if best is None or accuracy > best[0]:  # of equals the strongest, which promises least
            best = (accuracy, strength, model)
    assert best is not None
    accuracy, strength, model = best
    probabilities = np.zeros((len(test), classes))
    probabilities[:, model.classes_] = model.predict_proba(vectoriser.transform(test))
    return probabilities, accuracy, strength


__all__ = ["STRENGTHS", "fit_tfidf", "predict_majority"]
