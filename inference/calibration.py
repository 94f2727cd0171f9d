"""Whether probabilities are what they say: of the decisions made with 80 %, are 80 % right?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BINS = 15


@dataclass(frozen=True)
class Calibration:
    """Bins of equal width over the probabilities. Where a bin is empty, its means are 0."""

    # How many decisions fell into each bin.
    counts: list[int]
    # Their mean probability, and the share that was right.
    confidences: list[float]
    accuracies: list[float]

    @property
    def expected_error(self) -> float:
        """The expected calibration error: the mean distance of the two, each bin by its decisions."""
        counts, distances = np.array(self.counts), np.subtract(self.accuracies, self.confidences)
        return float((counts * np.abs(distances)).sum() / counts.sum())


def calibrate(probabilities: np.ndarray, right: np.ndarray, bins: int = BINS) -> Calibration:
    """Compare probabilities, (N), with what came true, (N) of 0 and 1. A bin holds its upper end, not its lower."""
    index = np.clip(np.ceil(probabilities * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    filled = np.maximum(counts, 1)
    return Calibration(
        counts.tolist(),
        (np.bincount(index, probabilities, bins) / filled).tolist(),
        (np.bincount(index, right, bins) / filled).tolist(),
    )


__all__ = ["BINS", "Calibration", "calibrate"]
