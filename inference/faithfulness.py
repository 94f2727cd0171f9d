"""Whether explanations are true: delete what they point to, and see whether the model changes its mind.

The tokens with the highest scores are deleted, a few at first, then more. The probability of the predicted label should
fall further than when as many tokens are deleted at random (DeYoung et al., 2020, call it comprehensiveness).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .classifier import Classifier
from .explanation import DEFAULT_METHOD, STEPS, Method, score_tokens

# Shares of a text's tokens that are deleted.
FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5)
_RANDOM_DRAWS = 5


@dataclass(frozen=True)
class Faithfulness:
    """Means over the texts of how far the probability of the predicted label falls."""

    method: str
    texts: int
    fractions: tuple[float, ...]
    # With the tokens of the highest scores deleted, and with as many at random.
    drops: list[float]
    random_drops: list[float]

    @property
    def advantage(self) -> float:
        """By how much more the probability falls than at random, a mean over the fractions."""
        return float(np.mean(np.subtract(self.drops, self.random_drops)))


def deletion_faithfulness(
    classifier: Classifier,
    texts: Sequence[str],
    method: Method = DEFAULT_METHOD,
    *,
    fractions: Sequence[float] = FRACTIONS,
    steps: int = STEPS,
    seed: int = 0,
) -> Faithfulness:
    """Measure a method on texts; those of less than two tokens are left out. The same for the same seed."""
    draw = np.random.default_rng(seed)
    drops, random_drops = [], []
    for ids in classifier.encode(texts):
        positions = np.array([index for index, token in enumerate(ids) if token != classifier.tokenizer.bos_token_id])
        if len(positions) < 2:
            continue
        shares = classifier.probabilities(classifier.logits([ids]))[0]
        target = int(shares.argmax())
        scores = np.array(score_tokens(classifier, ids, target, method, steps))[positions]
        orders = [
            positions[np.argsort(-scores, kind="stable")],
            *(draw.permutation(positions) for _ in range(_RANDOM_DRAWS)),
        ]
        cut = [_delete(ids, order, fraction) for order in orders for fraction in fractions]
        after = classifier.probabilities(classifier.logits(cut))[:, target].view(len(orders), len(fractions))
        fall = (shares[target] - after).numpy()  # (1 + draws, fractions)
        drops.append(fall[0])
        random_drops.append(fall[1:].mean(0))
    if not drops:
        raise ValueError("expected texts of at least two tokens, found none")
    means = (np.mean(values, axis=0).tolist() for values in (drops, random_drops))
    return Faithfulness(method, len(drops), tuple(fractions), *means)


def _delete(ids: Sequence[int], order: np.ndarray, fraction: float) -> list[int]:
    """Without the first tokens of the order; at least one goes, at least one stays."""
    number = min(max(1, round(fraction * len(order))), len(order) - 1)
    gone = set(order[:number].tolist())
    return [token for index, token in enumerate(ids) if index not in gone]


__all__ = ["FRACTIONS", "Faithfulness", "deletion_faithfulness"]
