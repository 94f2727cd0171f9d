"""Intervals: those of the metrics themselves on each resample, and as wide as they must be to hold the truth."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from greffe.inference.bootstrap import bootstrap_intervals, weighted_metrics
from greffe.train.metrics import make_compute_metrics

NAMES = {0: "a", 1: "b", 2: "c"}


def make_data(task: str, rows: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, what they decide, and labels that agree with them more often than not."""
    draw = np.random.default_rng(1)
    if task == "regression":
        values = draw.integers(0, 9, rows) / 2.0  # with ties
        return values[:, None], values, values + draw.integers(-2, 3, rows)
    logits = draw.normal(size=(rows, 3))
    if task == "multi_label":
        return logits, (logits > 0).astype(int), (logits + draw.normal(size=(rows, 3)) > 0).astype(int)
    noisy = logits + draw.normal(size=(rows, 3))
    return logits, logits.argmax(1), noisy.argmax(1)


@pytest.mark.parametrize("task", ["single_label", "multi_label", "regression"])
def test_weighted_metrics_are_the_metrics_of_repeated_rows(task: Any) -> None:
    logits, decisions, references = make_data(task)
    compute = make_compute_metrics(task, {0: "x"} if task == "regression" else NAMES, detailed=False)
    draw = np.random.default_rng(2)
    samples = [np.arange(len(logits)), *(draw.integers(0, len(logits), len(logits)) for _ in range(5))]
    samples.append(np.flatnonzero(decisions == 0) if task == "single_label" else samples[-1])  # where a class is gone
    weights = np.stack([np.bincount(sample, minlength=len(logits)) for sample in samples]).astype(float)
    found = weighted_metrics(task, decisions, references)(weights)
    for index, sample in enumerate(samples):
        expected = compute(SimpleNamespace(predictions=logits[sample], label_ids=references[sample]))
        assert {name: values[index] for name, values in found.items()} == pytest.approx(expected)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Many test sets of 200 texts and a model that is right on 80 % of all texts: how often is 0.8 in the interval?"""
    draw, held, runs = np.random.default_rng(3), 0, 400
    for run in range(runs):
        right = (draw.random(200) < 0.8).astype(int)
        metrics = weighted_metrics("single_label", right, np.ones(200, int))
        low, high = bootstrap_intervals(metrics, 200, samples=400, confidence=0.9, seed=run)["accuracy"]
        held += low <= 0.8 <= high
    assert 0.86 < held / runs < 0.94  # three standard errors around 0.9


def test_intervals_are_those_of_theory() -> None:
    """The mean of many numbers has a known standard error."""
    draw = np.random.default_rng(4)
    errors = draw.normal(size=1000)
    low, high = bootstrap_intervals(weighted_metrics("regression", errors, np.zeros(1000)), 1000, samples=2000)["mae"]
    middle, width = np.abs(errors).mean(), 1.96 * np.abs(errors).std() / np.sqrt(1000)
    assert (low, high) == (pytest.approx(middle - width, abs=width / 10), pytest.approx(middle + width, abs=width / 10))


def test_the_seed_decides_and_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _, decisions, references = make_data("single_label")
    metrics = weighted_metrics("single_label", decisions, references)
    first = bootstrap_intervals(metrics, 40, seed=5)
    assert first == bootstrap_intervals(metrics, 40, seed=5)
    assert first != bootstrap_intervals(metrics, 40, seed=6)
    monkeypatch.setattr("greffe.inference.bootstrap._AT_ONCE", 40 * 33)
    assert bootstrap_intervals(metrics, 40, seed=5) == first


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="expected at least 1 resample, found 0"):
        bootstrap_intervals(lambda weights: {}, 4, samples=0)
    with pytest.raises(ValueError, match="expected a confidence between 0 and 1, found 95"):
        bootstrap_intervals(lambda weights: {}, 4, confidence=95)
