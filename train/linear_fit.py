"""What is fitted whole, with no steps to choose: linear classifiers of fixed features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from greffe.modeling.loss import classification_loss
from torch import Tensor

_ITERATIONS = 100  # of L-BFGS at the most


def fit_linear(
    logits_of: Callable[[Tensor], Tensor],
    shape: Sequence[int],  # of the weights: (features, C)
    targets: Tensor,
    problem: str,
    strengths: Sequence[float],
) -> Iterator[tuple[float, Tensor, Tensor]]:
    """For each inverse strength of the regularisation the best weights and biases (C), each started from the last.

    `logits_of` says what weights make of the features, (texts, C), without the biases.
    """
    weight = torch.zeros(*shape, requires_grad=True)
    bias = torch.zeros(shape[1], requires_grad=True)
    for strength in strengths:

        def objective(strength: float = strength) -> Tensor:
            loss = classification_loss(logits_of(weight) + bias, targets, problem, num_items_in_batch=1)
            return loss + weight.square().sum() / (2 * strength)

        minimise(objective, [weight, bias])
        yield strength, weight.detach().clone(), bias.detach().clone()


def minimise(objective: Any, parameters: list[Tensor]) -> None:
    optimiser = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss: Tensor = objective()
        loss.backward()
        return loss

    optimiser.step(closure)


__all__ = ["fit_linear", "minimise"]
