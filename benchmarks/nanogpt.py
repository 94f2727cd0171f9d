"""The leanest peer: a GPT in a page and a loop in ten lines, with every setting that makes such a loop fast.

torch's fused attention under the square mask, no padding, fused AdamW, bf16 where the processor has it, rows cut at
random places of one long array of tokens; no `Trainer`, no checkpoints, no checks. `torch.compile` if asked.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
from greffe.tokenization import encode_documents, load_tokenizer
from greffe.train.machine import native_bf16
from torch import Tensor, nn
from torch.nn import functional as F

from .gate import StepCounter
from .sizes import Size
from .workload import Workload, count_batch, read_lines


class Block(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.heads = size.heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv, self.out = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.up, self.down = nn.Linear(size.width, size.feed_forward), nn.Linear(size.feed_forward, size.width)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, d)
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # 3 x (B, nh, T, hd)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class GPT(nn.Module):
    def __init__(self, size: Size, vocabulary: int, block_size: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, size.width), nn.Embedding(block_size, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, vocabulary, bias=False)
        for matrix in (self.tokens.weight, self.positions.weight, self.head.weight):
            nn.init.normal_(matrix, std=0.02)
        if size.tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def pretrain(gate: StepCounter, workload: Workload, compiled: bool = False) -> None:
    tokenizer = load_tokenizer(workload.tokenizer)
    tokens = np.concatenate([np.array(row) for row in encode_documents(tokenizer, read_lines(workload.corpus))])
    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    model = GPT(workload.size, len(tokenizer), workload.block_size)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    precision = torch.autocast("cpu", torch.bfloat16) if native_bf16() else nullcontext()
    lengths = [workload.block_size] * workload.batch_size
    full = count_batch(workload.size, lengths, workload.block_size, head=True)
    while True:
        starts = draw.integers(0, len(tokens) - workload.block_size - 1, workload.batch_size)
        rows = torch.from_numpy(np.stack([tokens[start : start + workload.block_size + 1] for start in starts]))
        with precision:
            loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        gate.step(**full)


__all__ = ["GPT", "pretrain"]
