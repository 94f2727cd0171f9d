"""The expected calibration error, by hand and at its ends."""

import numpy as np
import pytest
from greffe.inference.calibration import calibrate


def test_by_hand() -> None:
    # Bins of 1/15: 0.52 and 0.53 fall into (7/15, 8/15], 0.95 and 0.99 into (14/15, 1], 0.7 into (10/15, 11/15].
    shares, right = np.array([0.52, 0.95, 0.53, 0.99, 0.7]), np.array([1, 1, 0, 0, 1])
    calibration = calibrate(shares, right)
    assert [index for index, count in enumerate(calibration.counts) if count] == [7, 10, 14]
    by_hand = (2 * abs(1 / 2 - (0.52 + 0.53) / 2) + 1 * abs(1 - 0.7) + 2 * abs(1 / 2 - (0.95 + 0.99) / 2)) / 5
    assert calibration.expected_error == pytest.approx(by_hand)
    assert calibration.accuracies[14] == 0.5
    assert calibration.confidences[7] == pytest.approx(0.525)


def test_ends_and_edges() -> None:
    calibration = calibrate(np.array([0.0, 1 / 15, 2 / 15, 1.0]), np.array([0, 0, 0, 1]))
    assert calibration.counts == [2, 1, *[0] * 11, 0, 1]


@pytest.mark.parametrize(("truth", "low", "high"), [(lambda p: p, 0, 0.02), (lambda p: p / 2, 0.3, 0.45)])
def test_honest_and_boastful_probabilities(truth, low: float, high: float) -> None:
    draw = np.random.default_rng(0)
    shares = draw.uniform(0.5, 1, 20_000)
    assert low <= calibrate(shares, draw.random(20_000) < truth(shares)).expected_error < high
