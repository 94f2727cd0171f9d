"""Losses that travel with the model: cross-entropy that never holds all logits at once, and classification."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Logits alive at once in `linear_cross_entropy`, in bytes: 671 tokens at a vocabulary of 50,001 in bf16, half of that
# in fp32. Smaller chunks make the matrix products slower; larger ones only cost memory.
CHUNK_BYTES = 2**26
# Of these, so many elements at a time become probabilities: what fits into the cache is read from memory once.
CACHED_ELEMENTS = 2**20
# bf16 products are up to 1.8 times faster where rows and columns come in multiples of these.
_ROWS, _COLUMNS = 64, 256


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
        matrix, offset = widen(weight, bias, hidden.dtype)  # (W, d) and (W), where W is V or somewhat more
        rows = chunk_rows(tokens, matrix)
        buffer = hidden.new_empty((rows, matrix.shape[0]))
        loss = hidden.new_zeros((), dtype=torch.float32)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        # The scale of a row is applied to what is narrow, and not to its logits.
        scaled = (hidden * row_scale[:, None]).to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = grad_bias = None

        for start in range(0, max(tokens, 1), rows):
            chunk = slice(start, start + rows)
            logits = buffer[: hidden[chunk].shape[0]]  # (rows, W); then their gradients, in place
            if offset is None:
                torch.mm(hidden[chunk], matrix.t(), out=logits)
            else:
                torch.addmm(offset, hidden[chunk], matrix.t(), out=logits)
            losses = _differentiate(logits, targets[chunk])
            loss += losses @ row_scale[chunk]
            if needs_bias:
                grad_bias = _add_product(grad_bias, logits.t(), row_scale[chunk, None].to(logits.dtype), vocab_size)
            if needs_weight:
                grad_weight = _add_product(grad_weight, logits.t(), scaled[chunk], vocab_size)
            if grad_hidden is not None:
                torch.mm(logits, matrix, out=grad_hidden[chunk])

        if grad_hidden is not None:
            grad_hidden *= row_scale[:, None]
        if grad_bias is not None:
            grad_bias = grad_bias.squeeze(1)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if grad_loss.device.type != "cpu" or torch.compiler.is_compiling() or grad_loss != 1:
            # In place: these are of no use to anyone else, and autograd refuses a second backward by itself.
            gradients = [None if gradient is None else gradient.mul_(grad_loss) for gradient in gradients]
        grad_hidden, grad_weight, grad_bias = gradients
        weight_dtype, bias_dtype = ctx.dtypes
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight_dtype),
            None if grad_bias is None else grad_bias.to(bias_dtype),
            None,
            None,
        )


def chunk_rows(tokens: int, matrix: Tensor) -> int:
    """How many tokens have their logits in memory at once, in chunks that are about equal."""
    most = max(1, CHUNK_BYTES // (matrix.shape[0] * matrix.element_size()))
    chunks = -(-tokens // most)
    rows = -(-tokens // max(chunks, 1))
    return max(1, min(-(-rows // _ROWS) * _ROWS, most))


def widen(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """The matrix and the bias in this dtype. Where that makes a copy, with columns that nothing is ever drawn from.

    (V, d) and (V) become (W, d) and (W), where W is a multiple of `_COLUMNS`; the bias of the additional ones is -inf.
    """
    if weight.dtype == dtype:
        return weight, None if bias is None else bias.to(dtype)
    vocab_size, width = weight.shape
    columns = -(-vocab_size // _COLUMNS) * _COLUMNS
    matrix = weight.new_zeros((columns, width), dtype=dtype)
    matrix[:vocab_size] = weight
    offset = weight.new_full((columns,), -torch.inf, dtype=dtype)
    offset[:vocab_size] = 0 if bias is None else bias
    return matrix, offset


def _differentiate(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (rows, W) into the gradients of their cross-entropies, in place; returns the cross-entropies in fp32.

    A few rows at a time, so that all that is done with them is done in the processor's cache.
    """
    rows = logits.shape[0]
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        rows = max(1, min(rows, CACHED_ELEMENTS // logits.shape[1]))
    rounded = logits.dtype != torch.float32
    scratch = logits.new_empty((rows, logits.shape[1]), dtype=torch.float32) if rounded else logits
    losses = []
    for some, target in zip(logits.split(rows), targets[:, None].split(rows), strict=True):
        scores = scratch[: some.shape[0]].copy_(some) if rounded else some
        target_score = scores.gather(1, target)
        top = scores.amax(1, keepdim=True)
        torch.softmax(scores, 1, out=scores)
        # The most probable token has the probability exp(0) / total.
        loss = top - scores.amax(1, keepdim=True).log() - target_score
        # Not p - 1, which is all rounding where p is near 1.
        scores.scatter_(1, target, torch.expm1(-loss))
        if rounded:
            some.copy_(scores)
        losses.append(loss)
    return torch.cat(losses).squeeze(1)


def _add_product(total: Tensor | None, left: Tensor, right: Tensor, rows: int) -> Tensor:
    """The first rows of `left @ right`, added to the total so far in fp32; the matrices may be of fewer bits."""
    if total is None:
        return (left @ right)[:rows].float()
    if left.dtype == total.dtype:
        return torch.addmm(total, left, right, out=total)
    return total.add_((left @ right)[:rows])


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
