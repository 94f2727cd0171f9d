"""The ceiling: the matrix products of a training step and nothing else, in fp32 and in bf16.

No softmax, no norms, no optimiser, no data; buffers are made once. Forward, both gradients of every linear layer, and
attention, of which the square mask leaves half. What a training step reaches of this is what it does not waste. On a
processor without native bf16 its products are many times slower: this shows how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from greffe.modeling.loss import CHUNK_ELEMENTS
from greffe.train.stage_trainer import native_bf16
from torch import Tensor

from .command_line import Options, main
from .gate import StepCounter
from .report import Case
from .rounds import Contender, alternate
from .sizes import Size

Product = Callable[[], Tensor]


def multiply(gate: StepCounter, size: Size, batch_size: int, block_size: int, dtype: str | None = None) -> None:
    """A step has the products of a training step; without a dtype, in the one that Greffe trains in here."""
    kind = getattr(torch, dtype) if dtype else torch.bfloat16 if native_bf16() else torch.float32
    if kind == torch.bfloat16 and not native_bf16():
        batch_size = 1  # is enough to see how slow it is
    torch.manual_seed(0)
    tokens = batch_size * block_size
    layer = [
        *linear_products(tokens, size.width, 3 * size.width, kind),
        *attention_products(batch_size * size.heads, block_size, size.width // size.heads, kind),
        *linear_products(tokens, size.width, size.width, kind),
        *linear_products(tokens, size.width, size.feed_forward, kind),
        *linear_products(tokens, size.feed_forward, size.width, kind),
    ]
    products = layer * size.layers + head_products(tokens, size.width, size.vocabulary, kind)
    gigaflops = count_operations(size, batch_size, block_size) / 1e9
    while True:
        for product in products:
            product()
        gate.step(tokens=tokens, gigaflops=gigaflops)


def linear_products(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> list[Product]:
    """A linear layer: its output, the gradient of its input, the gradient of its weight."""
    x, weight, y = (torch.randn(shape, dtype=dtype) for shape in ((rows, inputs), (outputs, inputs), (rows, outputs)))
    grad_x, grad_weight = torch.empty_like(x), torch.empty_like(weight)
    return [
        lambda: torch.mm(x, weight.t(), out=y),
        lambda: torch.mm(y, weight, out=grad_x),
        lambda: torch.mm(y.t(), x, out=grad_weight),
    ]


def head_products(rows: int, width: int, vocabulary: int, dtype: torch.dtype) -> list[Product]:
    """The same for the head, in chunks of rows: what touches the whole of its output runs into the memory's limit."""
    chunk = max(1, min(rows, CHUNK_ELEMENTS // vocabulary))
    whole = linear_products(chunk, width, vocabulary, dtype) * (rows // chunk)
    return whole + (linear_products(rows % chunk, width, vocabulary, dtype) if rows % chunk else [])


def attention_products(heads: int, length: int, width: int, dtype: torch.dtype) -> list[Product]:
    """Scores and mixture, and the four products of their gradients, over half of the positions."""
    seen = max(1, length // 2)
    q, k, v, out = (torch.randn(heads, rows, width, dtype=dtype) for rows in (length, seen, seen, length))
    scores = torch.empty(heads, length, seen, dtype=dtype)
    grad_q, grad_k = torch.empty_like(q), torch.empty_like(k)
    return [
        lambda: torch.bmm(q, k.transpose(1, 2), out=scores),
        lambda: torch.bmm(scores, v, out=out),
        lambda: torch.bmm(scores.transpose(1, 2), out, out=grad_k),  # of the values
        lambda: torch.bmm(out, v.transpose(1, 2), out=scores),
        lambda: torch.bmm(scores, k, out=grad_q),
        lambda: torch.bmm(scores.transpose(1, 2), q, out=grad_k),
    ]


def count_operations(size: Size, batch_size: int, block_size: int) -> int:
    """Multiplications and additions of a step."""
    matrices = size.layers * (4 * size.width**2 + 2 * size.width * size.feed_forward) + size.width * size.vocabulary
    attention = size.layers * 2 * (block_size // 2) * size.width
    return 2 * 3 * batch_size * block_size * (matrices + attention)


def run(options: Options, folder: Path) -> Iterator[Case]:
    default = ("experiment",) if options.quick else ("experiment", "small")
    for size in options.choose_sizes(*default):
        block_size = options.pick(256, 64)
        contenders = [
            Contender(name, "ceiling.multiply", (size, 16, block_size, dtype))
            for name, dtype in (("fp32", "float32"), ("bf16", "bfloat16"))
        ]
        measured = alternate(contenders, count="tokens", steps=1, rounds=options.count_rounds())
        yield Case("ceiling", f"{size.name}, blocks of {block_size}", "tokens/s", measured, base="fp32")


if __name__ == "__main__":
    main(run, __doc__)
