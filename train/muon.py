"""Muon for the matrices of the layers, AdamW for everything else, as one optimiser.

Muon makes each step of a matrix as long in every direction: rare directions, which carry much of what is still to be
learned, are not drowned by common ones. Embeddings, biases and norms are no maps from vectors to vectors, and have none
to balance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

# The steps of Muon, multiplied by this for each shape, are as long as those of AdamW would be.
_LIKE_ADAMW = "match_rms_adamw"


class MuonAndAdamW(torch.optim.Optimizer):
    """Both of torch's optimisers on the groups of one: learning rates, state and checkpoints are as of any other."""

    def __init__(self, muon: Iterable[nn.Parameter], adamw: list[dict[str, Any]], lr: float, weight_decay: float):
        groups = [{"params": list(muon), "weight_decay": weight_decay}]
        self._muon = torch.optim.Muon(groups, lr=lr, adjust_lr_fn=_LIKE_ADAMW)
        self._adamw = torch.optim.AdamW(adamw, lr=lr, betas=(0.9, 0.95), fused=True)
        super().__init__([*self._muon.param_groups, *self._adamw.param_groups], {})
        self._share()

    def _share(self) -> None:
        """The parts work on the groups and the state of the whole, which loading replaces."""
        self._muon.param_groups, self._adamw.param_groups = self.param_groups[:1], self.param_groups[1:]
        self._muon.state = self._adamw.state = self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._muon.step()
        self._adamw.step()
        return loss


def make_muon(model: nn.Module, decayed: set[str], lr: float, weight_decay: float) -> MuonAndAdamW:
    """`decayed` names the parameters that weight decay is for."""
    matrices: list[nn.Parameter] = []
    others: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if ".layers." in f".{name}" and parameter.ndim == 2:
            matrices.append(parameter)
        else:
            others[name in decayed].append(parameter)
    groups = [{"params": others[True], "weight_decay": weight_decay}, {"params": others[False], "weight_decay": 0.0}]
    return MuonAndAdamW(matrices, groups, lr, weight_decay)


__all__ = ["MuonAndAdamW", "make_muon"]
