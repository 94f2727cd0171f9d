"""From vectors to the vocabulary: in training the loss without the logits, otherwise the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils.import_utils import is_tracing

from .loss import linear_cross_entropy

# Texts of `_project`, and elements of its matrix for one text and for more, where another order of factors is faster.
_FEW, _LARGE_FOR_ONE, _LARGE_FOR_MORE = 64, 2**22, 2**20


def loss_and_logits(
    model: Any,  # with an `lm_head`
    hidden_states: Tensor,  # (B, T, d)
    targets: Tensor | None,  # (B, T): what each position predicts
    logits_to_keep: int | Tensor = 0,
    num_items_in_batch: Tensor | int | None = None,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """In training the loss without the logits; otherwise the logits, and the loss if there are targets."""
    head = model.lm_head
    if targets is not None and model.training and type(head) is nn.Linear:  # an adapter is a layer of its own
        loss = linear_cross_entropy(
            hidden_states.flatten(0, 1), head.weight, head.bias, targets.flatten(), num_items_in_batch
        )
        return loss, None
    kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    logits = _project(head, hidden_states[:, kept])
    if targets is None:
        return None, logits
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten().to(logits.device), reduction=reduction
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch, logits


def _project(head: nn.Module, hidden_states: Tensor) -> Tensor:
    """The head's output, (B, T, d) -> (B, T, V); one token a text takes the order of factors that is faster.

    In generation most of the time may go here. With 50,001 tokens in the vocabulary and sixteen texts the large matrix
    in front takes half as long; a single vector goes through it on one core, two of them on all, in a third of that.
    """
    batch, length, width = hidden_states.shape
    if (
        batch > _FEW
        or length != 1
        or torch.is_grad_enabled()
        or type(head) is not nn.Linear  # an adapter is a layer of its own
        or head.weight.numel() < (_LARGE_FOR_ONE if batch == 1 else _LARGE_FOR_MORE)
        or hidden_states.dtype != torch.float32
        or hidden_states.device.type != "cpu"
        or is_tracing(hidden_states)
        or torch.is_autocast_enabled("cpu")
    ):
        return head(hidden_states)
    states = hidden_states.reshape(batch, width)
    if batch == 1:
        states = states.repeat(2, 1)
    logits = torch.addmm(head.bias[:, None], head.weight, states.t())  # (V, B)
    return logits[:, :batch].t()[:, None]


__all__ = ["loss_and_logits"]
