"""The sceptic's models, against scikit-learn used by hand."""

import numpy as np
from greffe.train.comparison.baselines import STRENGTHS, fit_tfidf, predict_majority
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tiny_reviews import make_reviews


def split(number: int, seed: int) -> tuple[list[str], list[int]]:
    rows = make_reviews(number, seed)
    return [row["text"] for row in rows], [int(row["label"] == "positif") for row in rows]


def test_majority_is_the_commonest_class_with_the_shares_of_all() -> None:
    probabilities = predict_majority([2, 2, 0, 2], classes=4, rows=3)
    np.testing.assert_allclose(probabilities, [[0.25, 0, 0.75, 0]] * 3)


def test_strength_is_chosen_on_validation() -> None:
    train, validation, (texts, targets) = split(60, 1), split(200, 2), split(200, 3)
    probabilities, accuracy, strength = fit_tfidf(train, validation, texts, classes=2)
    by_hand = {}
    for candidate in STRENGTHS:
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+")
        by_hand[candidate] = make_pipeline(vectors, LogisticRegression(C=candidate, max_iter=2000)).fit(*train)
    scores = {candidate: model.score(*validation) for candidate, model in by_hand.items()}
    assert accuracy == max(scores.values())
    assert strength == min(candidate for candidate, score in scores.items() if score == accuracy)
    np.testing.assert_allclose(probabilities, by_hand[strength].predict_proba(texts), atol=1e-6)
    assert np.mean(probabilities.argmax(1) == targets) > 0.6
    assert len(set(scores.values())) > 1  # the choice is a choice


def test_a_class_that_the_sample_lacks_has_no_probability() -> None:
    train = ["bon film", "mauvais film", "bon livre", "mauvais livre"], [0, 2, 0, 2]
    probabilities, _, _ = fit_tfidf(train, train, ["bon", "mauvais"], classes=3)
    assert probabilities[:, 1].tolist() == [0, 0]
    assert probabilities.argmax(1).tolist() == [0, 2]
