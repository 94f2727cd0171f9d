"""The loss of the vocabulary, forward and backward: time and peak memory beside plain torch and torch's own chunks.

The work is the head of the reference experiment: 16 texts of 64 tokens, 200 wide, 50,001 words, fp32. Times alternate
between the peers, so that a slow moment of the machine falls on all; memory is of a process of its own for each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from greffe.modeling.loss import linear_cross_entropy
from torch import Tensor
from torch.nn import functional as F

WIDTH, VOCABULARY = 200, 50_001


def plain(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight, bias), targets)


def torch_chunks(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=512)
    return F.linear_cross_entropy(hidden, weight, targets, linear_bias=bias, options=options)


PEERS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "plain torch, all logits": plain,
    "torch.linear_cross_entropy, chunks of 512": torch_chunks,
    "greffe": linear_cross_entropy,
}
if not hasattr(torch.nn, "LinearCrossEntropyOptions"):  # since torch 2.13
    del PEERS["torch.linear_cross_entropy, chunks of 512"]


def make_inputs(tokens: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(tokens, WIDTH, requires_grad=True)
    weight = torch.empty(VOCABULARY, WIDTH).uniform_(-0.1, 0.1).requires_grad_()
    return hidden, weight, torch.zeros(VOCABULARY, requires_grad=True), torch.randint(VOCABULARY, (tokens,))


def run_step(peer: str, inputs: tuple[Tensor, Tensor, Tensor, Tensor]) -> float:
    """Seconds for one loss and its gradients."""
    for tensor in inputs:
        tensor.grad = None
    start = time.perf_counter()
    PEERS[peer](*inputs).backward()
    return time.perf_counter() - start


def measure_memory(peer: str, tokens: int) -> int:
    """Megabytes that three steps add to the peak of this process, which has done nothing else."""
    inputs = make_inputs(tokens)
    before = peak_kilobytes()
    for _ in range(3):
        run_step(peer, inputs)
    return (peak_kilobytes() - before) // 1024


def peak_kilobytes() -> int:
    """The most memory that this process has had. (getrusage would count its parent's: exec keeps that figure.)"""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 rounds in place of 7")
    parser.add_argument("--tokens", type=int, default=16 * 64, help="tokens in a batch (default: 1024)")
    options = parser.parse_args()

    inputs = make_inputs(options.tokens)
    seconds: dict[str, list[float]] = {peer: [] for peer in PEERS}
    for round_number in range(1 + (2 if options.quick else 7)):
        for peer in PEERS:
            elapsed = run_step(peer, inputs)
            if round_number:  # the first warms up
                seconds[peer].append(elapsed)

    ours = statistics.median(seconds["greffe"])
    print(f"{'':<44}{'ms':>6}{'spread':>14}{'x greffe':>10}{'peak MB':>9}")
    for peer, measured in seconds.items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            megabytes = pool.apply(measure_memory, (peer, options.tokens))
        median = statistics.median(measured)
        spread = f"{min(measured) * 1e3:.0f} to {max(measured) * 1e3:.0f}"
        print(f"{peer:<44}{median * 1e3:>6.0f}{spread:>14}{median / ours:>10.2f}{megabytes:>9}")


if __name__ == "__main__":
    main()
