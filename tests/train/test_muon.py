"""Muon and AdamW as one optimiser: each does what torch's own does, and a checkpoint holds both."""

import copy
from pathlib import Path

import torch
from greffe.modeling import GreffeForCausalLM
from greffe.train.muon import make_muon
from tiny_models import tiny_config
from torch import nn

RATE, DECAY = 1e-2, 0.1


def tiny_model() -> GreffeForCausalLM:
    torch.manual_seed(0)
    return GreffeForCausalLM(tiny_config("modern", num_hidden_layers=2))


def decayed(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.ndim == 2}


def take_steps(model: nn.Module, optimisers: list[torch.optim.Optimizer], steps: int = 3) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(3, 40, (2, 12), generator=generator)
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        for optimiser in optimisers:
            optimiser.step()


def test_each_parameter_moves_as_under_its_own_optimiser() -> None:
    joined, apart = tiny_model(), tiny_model()
    take_steps(joined, [make_muon(joined, decayed(joined), RATE, DECAY)])
    matrices, others, vectors = [], [], []
    for name, parameter in apart.named_parameters():
        (vectors if parameter.ndim < 2 else matrices if name.startswith("model.layers.") else others).append(parameter)
    assert len(matrices) == 8  # four in each layer
    muon = torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": others, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    take_steps(apart, [muon, torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), fused=True)])
    for (name, one), other in zip(joined.named_parameters(), apart.parameters(), strict=True):
        assert torch.equal(one, other), name
    start = dict(tiny_model().named_parameters())
    assert all(not torch.equal(value, start[name]) for name, value in joined.named_parameters())


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model = tiny_model()
    optimiser = make_muon(model, decayed(model), RATE, DECAY)
    take_steps(model, [optimiser])
    torch.save(optimiser.state_dict(), tmp_path / "optimizer.pt")
    other = copy.deepcopy(model)
    restored = make_muon(other, decayed(other), RATE, DECAY)
    restored.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    for group in (*optimiser.param_groups, *restored.param_groups):
        group["lr"] = RATE / 3  # as a schedule does
    take_steps(model, [optimiser])
    take_steps(other, [restored])
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two), name
