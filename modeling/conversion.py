"""The reference experiment's checkpoints, read into Greffe models.

The experiment builds its base on `torch.nn.TransformerEncoder`. Its checkpoints are pickled state dicts, of the whole
model (`base.encoder.weight`, …, `classifier.decoder.bias`) or of the base alone (no `base.` before the names).
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

from .configuration_greffe import GreffeConfig
from .modeling_greffe import (
    GreffeForCausalLM,
    GreffeForSequenceClassification,
    GreffeModel,
    GreffePreTrainedModel,
    sinusoidal_embedding,
)

# The experiment's names and ours, in the layers and outside; `qkv_proj` has queries, keys and values in torch's order.
_LAYER = re.compile(r"transformer_encoder\.layers\.(\d+)\.(.+)")
_LAYER_NAMES = {
    "self_attn.in_proj_weight": "self_attn.qkv_proj.weight",
    "self_attn.in_proj_bias": "self_attn.qkv_proj.bias",
    "self_attn.out_proj.weight": "self_attn.o_proj.weight",
    "self_attn.out_proj.bias": "self_attn.o_proj.bias",
    "linear1.weight": "mlp.up_proj.weight",
    "linear1.bias": "mlp.up_proj.bias",
    "linear2.weight": "mlp.down_proj.weight",
    "linear2.bias": "mlp.down_proj.bias",
    "norm1.weight": "self_attn_norm.weight",
    "norm1.bias": "self_attn_norm.bias",
    "norm2.weight": "mlp_norm.weight",
    "norm2.bias": "mlp_norm.bias",
}


def read_checkpoint(path: str | Path, num_attention_heads: int = 2) -> GreffePreTrainedModel:
    """The model of a checkpoint file; its class follows from what the file holds, its sizes from the weights."""
    state = _read_state_dict(path)
    try:
        return _build_model(state, num_attention_heads)
    except (ValueError, StrictDataclassError) as error:
        raise ValueError(f"{path}: {error.__cause__ or error}") from error


def _read_state_dict(path: str | Path) -> dict[str, Tensor]:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"expected a checkpoint file, found nothing at {path}") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"expected a checkpoint file, found a folder at {path}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"expected a file of tensors in {path}, as torch.save writes them, found one that is damaged or holds "
            "other objects, which are not loaded because they can run code; save model.state_dict() in it instead"
        ) from error
    if isinstance(content, Mapping) and "model_state_dict" in content:
        content = content["model_state_dict"]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(
            f"expected a state dict in {path}, alone or as 'model_state_dict', found "
            f"{sorted(map(str, content)) if isinstance(content, Mapping) else type(content).__name__}"
        )
    return dict(content)


def _build_model(state: dict[str, Tensor], num_attention_heads: int) -> GreffePreTrainedModel:
    base, decoder = _split(state)
    if "encoder.weight" not in base:
        raise ValueError(f"expected the embedding 'encoder.weight' or 'base.encoder.weight', found {sorted(state)[:8]}")
    _check_positions(base.pop("pos_encoder.pe", None))
    renamed = _rename(base)
    vocab_size, hidden_size = renamed["embed_tokens.weight"].shape
    up_proj = renamed.get("layers.0.mlp.up_proj.weight")
    config = GreffeConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=1 + max((int(match[1]) for name in base if (match := _LAYER.match(name))), default=-1),
        num_attention_heads=num_attention_heads,
        intermediate_size=None if up_proj is None else up_proj.shape[0],
    )
    if not decoder:
        return _fill(GreffeModel(config), renamed)
    outputs = next(iter(decoder.values())).shape[0]
    model: GreffePreTrainedModel
    if outputs == vocab_size:
        model, head = GreffeForCausalLM(config), "lm_head"
    else:
        config.num_labels = outputs
        model, head = GreffeForSequenceClassification(config), "score"
    weights = {f"model.{name}": value for name, value in renamed.items()}
    return _fill(model, weights | {f"{head}.{name}": value for name, value in decoder.items()})


def _split(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The base's weights without their prefix, and the classifier's."""
    decoder = {name.split(".", 2)[2]: value for name, value in state.items() if name.startswith("classifier.decoder.")}
    base = {
        name.removeprefix("base."): value for name, value in state.items() if not name.startswith("classifier.decoder.")
    }
    return base, decoder


def _rename(base: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed, unknown = {}, []
    for name, value in base.items():
        match = _LAYER.fullmatch(name)
        if name == "encoder.weight":
            renamed["embed_tokens.weight"] = value
        elif match and match[2] in _LAYER_NAMES:
            renamed[f"layers.{match[1]}.{_LAYER_NAMES[match[2]]}"] = value
        else:
            unknown.append(name)
    if unknown:
        raise ValueError(f"expected the weights of the reference experiment alone, found {sorted(unknown)}")
    return renamed


def _check_positions(table: Tensor | None) -> None:
    """The stored positions are not needed, but they must be the sinusoids that the model computes itself."""
    if table is None:
        return
    table = table.squeeze()  # (length, 1, d) or (1, length, d) in the experiment's versions
    expected = sinusoidal_embedding(torch.arange(table.shape[0]), table.shape[-1])
    if not torch.allclose(table.float(), expected, atol=1e-3):
        raise ValueError("expected the sinusoids of the experiment in 'pos_encoder.pe', found other positions")


def _fill(model: GreffePreTrainedModel, weights: dict[str, Tensor]) -> GreffePreTrainedModel:
    """Load the weights after a check of every name and shape."""
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    wrong = [
        f"{name}: expected {expected.get(name, 'none')}, found {found.get(name, 'none')}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
    if wrong:
        raise ValueError("the shapes do not form a model; " + "; ".join(wrong[:8]))
    model.load_state_dict(weights)
    return model


__all__ = ["read_checkpoint"]
