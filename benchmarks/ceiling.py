"""The ceiling: the matrix products of a step and nothing else, in fp32 and in bf16.

No softmax, no norms, no optimiser, no data; buffers are made once. Forward, both gradients of every linear layer, and
attention, of which the square mask leaves half. What a training step reaches of this is what it does not waste. On a
processor without native bf16 its products are many times slower: this shows how much.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from greffe.modeling.loss import chunk_rows, widen
from greffe.tokenization import load_tokenizer
from greffe.train.machine import native_bf16
from torch import Tensor

from .command_line import Options, main
from .gate import StepCounter
from .report import Case
from .rounds import Contender, alternate
from .sizes import Size
from .workload import Workload, read_labelled_lines

Product = Callable[[], Tensor]


def multiply(gate: StepCounter, size: Size, batch_size: int, block_size: int, dtype: str | None = None) -> None:
    """A step has the products of a step of pre-training; without a dtype, in the one that Greffe trains in here."""
    kind = getattr(torch, dtype) if dtype else trained_dtype()
    if kind == torch.bfloat16 and not native_bf16():
        batch_size = 1  # is enough to see how slow it is
    products = layer_products(size, batch_size, block_size, kind, training=True)
    products += head_products(batch_size * block_size, size.width, size.vocabulary, kind)
    gigaflops = 3 * batch_size * size.count_operations(block_size) / 1e9
    while True:
        for product in products:
            product()
        gate.step(tokens=batch_size * block_size, gigaflops=gigaflops)


def multiply_texts(gate: StepCounter, workload: Workload, training: bool) -> None:
    """The products of a classifier on the labelled texts, none padded; a step is a batch in training, else all texts.

    Rows have the mean length. Attention grows with the square of the length, so that such a row is not quite a text.
    """
    size, rows = workload.size, workload.batch_size
    texts, _ = read_labelled_lines(workload.labelled)
    tokenizer = load_tokenizer(workload.tokenizer)
    lengths = [len(ids) for ids in tokenizer(texts, truncation=True, max_length=workload.block_size)["input_ids"]]
    length = round(statistics.mean(lengths))
    products = layer_products(size, rows, length, trained_dtype() if training else torch.float32, training=training)
    batches = 1 if training else max(1, len(texts) // rows)
    operations = batches * rows * size.count_operations(length, head=False)
    of_a_text = statistics.mean(size.count_operations(length, head=False) for length in lengths)
    while True:
        for product in products * batches:
            product()
        gate.step(texts=operations / of_a_text, gigaflops=(3 if training else 1) * operations / 1e9)


def trained_dtype() -> torch.dtype:
    return torch.bfloat16 if native_bf16() else torch.float32


def layer_products(size: Size, rows: int, length: int, dtype: torch.dtype, training: bool) -> list[Product]:
    """Those of all layers, with the gradients in training."""
    torch.manual_seed(0)
    width, inner = size.width, size.feed_forward
    layer = attention_products(rows * size.heads, length, width // size.heads, dtype)[: 6 if training else 2]
    for inputs, outputs in ((width, 3 * width), (width, width), (width, inner), (inner, width)):
        layer += linear_products(rows * length, inputs, outputs, dtype)[: 3 if training else 1]
    return layer * size.layers


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
    """The same for the head, in the shapes that Greffe gives them: larger ones run into the memory's limit."""
    matrix, _ = widen(torch.empty(vocabulary, width), None, dtype)
    chunk, columns = chunk_rows(rows, matrix), matrix.shape[0]
    whole = linear_products(chunk, width, columns, dtype) * (rows // chunk)
    return whole + (linear_products(rows % chunk, width, columns, dtype) if rows % chunk else [])


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
