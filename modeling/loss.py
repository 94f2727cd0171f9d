"""Losses that travel with the model: cross-entropy that never holds all logits at once, and classification."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Logits alive at once in `linear_cross_entropy`, in elements: 64 MB in fp32, 335 tokens at a vocabulary of 50,001.
# Smaller chunks make the matrix products slower; larger ones only cost memory.
CHUNK_ELEMENTS = 2**24


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
) -> Tensor:
    """`cross_entropy(linear(hidden, weight, bias), targets)` in fp32, without the tokens x vocabulary logits.

    `hidden` is (tokens, d), `weight` (V, d), `bias` (V), `targets` (tokens). The mean is over the targets that are not
    `ignore_index`, or the sum is divided by `num_items_in_batch`, which Trainer passes when it accumulates gradients.
    Under autocast the matrix products run in its dtype, and nothing else does: the loss is not rounded to it.
    """
    targets = targets.to(hidden.device)
    labelled = targets != ignore_index
    if num_items_in_batch is None:
        num_items_in_batch = labelled.sum()
    denominator = torch.as_tensor(num_items_in_batch, dtype=torch.float32, device=hidden.device)
    if not torch.compiler.is_compiling():
        # Rows without a target cost as much as the others; their number is only known at run time.
        rows = labelled.nonzero().squeeze(1)
        hidden, targets, labelled = hidden[rows], targets[rows], labelled[rows]
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    else:
        hidden = hidden.to(weight.dtype)
    row_scale = labelled / denominator  # what the gradient of each row is worth
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets.where(labelled, 0), row_scale)


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum of the cross-entropies, each multiplied by its row's scale.

    Gradients are computed beside the loss while a chunk's probabilities are there, so that nothing of size tokens x
    vocabulary is kept, or computed twice. torch has a `linear_cross_entropy` of the same speed in fp32; in bf16 it
    rounds the loss to 8 bits.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, row_scale: Tensor
    ) -> Tensor:
        tokens, vocab_size = hidden.shape[0], weight.shape[0]
        rows = max(1, min(tokens, CHUNK_ELEMENTS // vocab_size))
        matrix = weight.to(hidden.dtype)
        loss = hidden.new_zeros((), dtype=torch.float32)
        buffer = hidden.new_empty((rows, vocab_size), dtype=torch.float32)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and needs_bias else None

        for start in range(0, tokens, rows):
            chunk = hidden[start : start + rows]  # (rows, d)
            target = targets[start : start + rows, None]  # (rows, 1)
            scale = row_scale[start : start + rows, None]  # (rows, 1)
            scores = buffer[: chunk.shape[0]]  # (rows, V): logits, then exponentials, then gradients, all in place
            _multiply(chunk, matrix.t(), out=scores)
            if bias is not None:
                scores += bias
            target_logit = scores.gather(1, target)
            top = scores.amax(1, keepdim=True)
            total = scores.sub_(top).exp_().sum(1, keepdim=True)
            loss += ((top + total.log() - target_logit) * scale).sum()
            if not any(ctx.needs_input_grad):
                continue
            scores *= scale / total
            scores.scatter_add_(1, target, -scale)
            if grad_bias is not None:
                grad_bias += scores.sum(0)
            gradient = scores.to(matrix.dtype)
            if grad_weight is not None:
                _multiply(gradient.t(), chunk, out=grad_weight, accumulate=True)
            if grad_hidden is not None:
                torch.mm(gradient, matrix, out=grad_hidden[start : start + rows])

        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        weight_dtype, bias_dtype = ctx.dtypes
        # In place: these are of no use to anyone else, and autograd refuses a second backward by itself.
        return (
            None if grad_hidden is None else grad_hidden.mul_(grad_loss),
            None if grad_weight is None else grad_weight.mul_(grad_loss).to(weight_dtype),
            None if grad_bias is None else grad_bias.mul_(grad_loss).to(bias_dtype),
            None,
            None,
        )


def _multiply(left: Tensor, right: Tensor, out: Tensor, accumulate: bool = False) -> None:
    """`out = left @ right`, or `out += left @ right`, where `out` is fp32 and the matrices may be of fewer bits."""
    if left.dtype == out.dtype:
        torch.addmm(out, left, right, beta=int(accumulate), out=out)
    elif accumulate:
        out += left @ right
    else:
        out.copy_(left @ right)


def classification_loss(
    logits: Tensor, labels: Tensor, problem_type: str, num_items_in_batch: Tensor | int | None = None
) -> Tensor:
    """The loss of a sequence classifier, (B, C) logits, as a mean over its items or a sum over `num_items_in_batch`.

    The library's own ignores `num_items_in_batch` for regression and several labels, so that accumulating gradients
    would multiply them by the number of steps.
    """
    logits, labels = logits.float(), labels.to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    if problem_type == "regression":
        loss = F.mse_loss(logits.view(labels.shape), labels.float(), reduction=reduction)
    elif problem_type == "single_label_classification":
        loss = F.cross_entropy(logits, labels.view(-1), reduction=reduction)
    elif problem_type == "multi_label_classification":
        loss = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction=reduction)
    else:
        raise ValueError(
            "expected problem_type 'regression', 'single_label_classification' or 'multi_label_classification', "
            f"found {problem_type!r}"
        )
    return loss if num_items_in_batch is None else loss / torch.as_tensor(num_items_in_batch, device=loss.device)


__all__ = ["classification_loss", "linear_cross_entropy"]
