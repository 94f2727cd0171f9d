"""The loss of the vocabulary, forward and backward: time and peak memory beside plain torch and torch's own chunks.

The work is the head of the reference experiment: 16 texts of 64 tokens, 200 wide, 50,001 words, fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from greffe.modeling.loss import linear_cross_entropy
from torch import Tensor
from torch.nn import functional as F

from .command_line import Options, main
from .gate import StepCounter
from .report import Case
from .rounds import Contender, alternate
from .sizes import Size

_TOKENS = 16 * 64


def plain(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight, bias), targets)


def torch_chunks(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=512)
    return F.linear_cross_entropy(hidden, weight, targets, linear_bias=bias, options=options)


PEERS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "greffe": linear_cross_entropy,
    "plain torch, all logits": plain,
    "torch.linear_cross_entropy, chunks of 512": torch_chunks,
}
if not hasattr(torch.nn, "LinearCrossEntropyOptions"):  # since torch 2.13
    del PEERS["torch.linear_cross_entropy, chunks of 512"]


def compute(gate: StepCounter, peer: str, size: Size) -> None:
    """A step is one loss and its gradients."""
    torch.manual_seed(0)
    hidden = torch.randn(_TOKENS, size.width, requires_grad=True)
    weight = torch.empty(size.vocabulary, size.width).uniform_(-0.1, 0.1).requires_grad_()
    bias, targets = torch.zeros(size.vocabulary, requires_grad=True), torch.randint(size.vocabulary, (_TOKENS,))
    while True:
        for tensor in (hidden, weight, bias):
            tensor.grad = None
        PEERS[peer](hidden, weight, bias, targets).backward()
        gate.step(tokens=_TOKENS)


def run(options: Options, folder: Path) -> Iterator[Case]:
    for size in options.choose_sizes("experiment"):
        contenders = [Contender(peer, "loss.compute", (peer, size)) for peer in PEERS]
        measured = alternate(contenders, count="tokens", steps=options.pick(3, 1), rounds=options.count_rounds(7))
        yield Case("loss", f"{size.name}, {_TOKENS:,} tokens", "tokens/s", measured)


if __name__ == "__main__":
    main(run, __doc__)
