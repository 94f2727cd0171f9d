"""The reference experiment's own loop, written from its description.

`torch.nn.TransformerEncoder` as it comes, sinusoids from a table, the square mask, fp32, batches of whole texts padded
to the longest, the logits of every position at once, Adam. Texts are cut at the block size, as others' rows are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from greffe.tokenization import encode_documents, load_tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from .gate import StepCounter
from .sizes import Size
from .text import LABELS
from .workload import Workload, count_batch, read_labelled_lines, read_lines

_LONGEST = 5000  # positions in the table


class Base(nn.Module):
    """Embedding, positions and layers: (T, B) ids into (T, B, d) vectors."""

    positions: Tensor

    def __init__(self, size: Size, vocabulary: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size.width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        layer = nn.TransformerEncoderLayer(size.width, size.heads, size.feed_forward, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.scale = math.sqrt(size.width)
        angles = torch.arange(_LONGEST)[:, None] * torch.exp(
            torch.arange(0, size.width, 2) * (-math.log(10_000.0) / size.width)
        )
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, None])

    def forward(self, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(len(ids))
        return self.layers(self.embedding(ids) * self.scale + self.positions[: len(ids)], mask=mask)


class Model(nn.Module):
    """The base and a linear layer, for a language model and for a classifier."""

    def __init__(self, size: Size, vocabulary: int, outputs: int):
        super().__init__()
        self.base = Base(size, vocabulary)
        self.decoder = nn.Linear(size.width, outputs)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids: Tensor) -> Tensor:
        return self.decoder(self.base(ids))


def pretrain(gate: StepCounter, workload: Workload) -> None:
    tokenizer = load_tokenizer(workload.tokenizer)
    pad = tokenizer.pad_token_id
    texts = read_lines(workload.corpus, workload.steps * workload.batch_size)
    rows = [row[: workload.block_size + 1] for row in encode_documents(tokenizer, texts)]
    torch.manual_seed(0)
    model = Model(workload.size, len(tokenizer), len(tokenizer))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    while True:
        for batch in _batches(rows, workload.batch_size):
            ids = nn.utils.rnn.pad_sequence(batch, padding_value=pad)  # (T + 1, B)
            optimizer.zero_grad()
            logits = model(ids[:-1])  # (T, B, V)
            F.cross_entropy(logits.flatten(0, 1), ids[1:].flatten(), ignore_index=pad).backward()
            optimizer.step()
            lengths = [len(row) - 1 for row in batch]
            gate.step(**count_batch(workload.size, lengths, max(lengths), head=True))


def finetune(gate: StepCounter, workload: Workload) -> None:
    """The classifier reads the vector of the last real token. A slice is an epoch."""
    tokenizer = load_tokenizer(workload.tokenizer)
    texts, labels = read_labelled_lines(workload.labelled)
    rows = tokenizer(texts, truncation=True, max_length=workload.block_size)["input_ids"]
    targets = torch.tensor(labels)
    torch.manual_seed(0)
    model = Model(workload.size, len(tokenizer), len(LABELS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    while True:
        order = torch.randperm(len(rows)).tolist()
        for chosen in (
            order[start : start + workload.batch_size] for start in range(0, len(order), workload.batch_size)
        ):
            batch = [torch.tensor(rows[index]) for index in chosen]
            ids = nn.utils.rnn.pad_sequence(batch, padding_value=tokenizer.pad_token_id)
            lengths = [len(row) for row in batch]
            optimizer.zero_grad()
            last = model.base(ids)[torch.tensor(lengths) - 1, torch.arange(len(batch))]  # (B, d)
            F.cross_entropy(model.decoder(last), targets[chosen]).backward()
            optimizer.step()
            gate.step(**count_batch(workload.size, lengths, max(lengths), head=False))


def _batches(rows: list[list[int]], batch_size: int) -> Iterator[list[Tensor]]:
    for start in range(0, len(rows), batch_size):
        yield [torch.tensor(row) for row in rows[start : start + batch_size]]


__all__ = ["Model", "finetune", "pretrain"]
