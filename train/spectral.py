"""A start for embeddings: what the documents of a corpus say of their tokens, before any training.

Tokens that stand in the same documents have something in common: their subject, their tone. A few seconds of linear
algebra find it (latent semantic analysis: the TF-IDF of documents x tokens, reduced to the model's width), where
predicting the next token, which teaches grammar first, takes hours. What a classifier reads of a text, the mean of its
vectors, then says from the first step what the text is about.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .packing import cut_documents

# A long document is cut: over a whole book every word meets every other one.
_LENGTH = 512
# More of these say little more, and the memory for them would grow without end.
_PIECES = 200_000
# A token of fewer pieces keeps its random draw: what it has in common with others is chance.
_FEWEST = 5
_ITERATIONS = 4  # of the randomised decomposition


def start_embeddings(
    embedding: torch.nn.Embedding, documents: Iterable[Sequence[int]], special_ids: Iterable[int], seed: int
) -> int:
    """Put what the documents say in place of the random draw, as wide as that; returns the number of tokens set."""
    counts = count_tokens(documents, embedding.num_embeddings)
    vectors, known = reduce_counts(counts, embedding.embedding_dim, seed)
    known[list(special_ids)] = False
    if known.sum() < 2:
        return 0
    with torch.no_grad():
        found = F.normalize(vectors[known])  # a rare token is as long as a frequent one, and told from other rare ones
        found = F.normalize(found - found.mean(dim=0))  # what all have in common tells nothing
        length = embedding.weight.std() * found.shape[1] ** 0.5  # of what was drawn in these columns
        embedding.weight[known, : found.shape[1]] = (found * length).to(embedding.weight)
    return int(known.sum())


def count_tokens(documents: Iterable[Sequence[int]], vocab_size: int) -> Tensor:
    """How often each token stands in each of the first pieces of text, (pieces, vocab_size), sparse."""
    pieces = list(islice(cut_documents(documents, _LENGTH), _PIECES))
    rows = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    keys, counts = np.unique(rows * vocab_size + np.concatenate(pieces), return_counts=True)
    return _sparse(np.stack(np.divmod(keys, vocab_size)), torch.from_numpy(counts).float(), (len(pieces), vocab_size))


def reduce_counts(counts: Tensor, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """A direction for each token, (vocab_size, width or less), and which stand in enough documents to have one."""
    rows, tokens = counts.indices()
    documents, vocab_size = counts.shape
    frequencies = torch.bincount(tokens, minlength=vocab_size)
    rarity = torch.log((1 + documents) / (1 + frequencies)) + 1
    weights = (1 + counts.values().log()) * rarity[tokens]
    lengths = torch.zeros(documents).index_add_(0, rows, weights**2).sqrt()
    weighted = _sparse(counts.indices(), weights / lengths[rows], counts.shape)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        torch.manual_seed(seed)
        rank = min(width, *counts.shape)
        _, _, directions = torch.svd_lowrank(weighted.to_sparse_csr(), q=rank, niter=_ITERATIONS)
    return directions, frequencies >= _FEWEST


def _sparse(indices: np.ndarray | Tensor, values: Tensor, size: Sequence[int]) -> Tensor:
    indices = torch.as_tensor(indices)
    return torch.sparse_coo_tensor(indices, values, tuple(size), is_coalesced=True, check_invariants=False)


__all__ = ["count_tokens", "reduce_counts", "start_embeddings"]
