"""Tiny models of both kinds, for every test that needs one."""

from typing import Any

import torch
from greffe.modeling import GreffeConfig

# The experiment's kind of layer, and the modern one: together they go through every branch of the trunk.
KINDS: dict[str, dict[str, Any]] = {
    "lab": {},
    "modern": {
        "norm_first": True,
        "hidden_act": "gelu",
        "position_embedding_type": "rotary",
        "tie_word_embeddings": True,
        "intermediate_size": 48,
    },
}


def tiny_config(kind: str = "lab", **overrides: Any) -> GreffeConfig:
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return GreffeConfig(**{**sizes, **KINDS[kind], **overrides})


def random_ids(batch: int, length: int, vocab_size: int = 97) -> torch.Tensor:
    return torch.randint(4, vocab_size, (batch, length))
