"""Where the parameters of a model are: a count for each part, and a table of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from . import modeling_greffe
from .configuration_greffe import GreffeConfig
from .load_report import MismatchError
from .modeling_greffe import GreffeForCausalLM, GreffeForSequenceClassification, GreffePreTrainedModel

# The parts in the order of the computation, by the module that holds them.
_PARTS = {
    "embed_tokens": "embedding",
    "self_attn": "attention",
    "mlp": "feed-forward",
    "self_attn_norm": "norms",
    "mlp_norm": "norms",
    "norm": "final norm",
    "lm_head": "head",
    "score": "head",
    "ngrams": "n-grams",
}


@dataclass(frozen=True)
class PartCount:
    """How many parameters a part of the model has, over all of its layers."""

    part: str
    layers: int  # 0 for what stands outside the layers
    total: int
    matrices: int  # without biases and norms, as some count
    trainable: int


def load_structure(
    folder: str | None = None,
    preset: str = "lab",
    num_labels: int | None = None,
    overrides: dict[str, Any] | None = None,
) -> GreffePreTrainedModel:
    """The model of a folder, or of a preset, without its weights: counting needs no memory and no reading."""
    if folder is None:
        config = GreffeConfig.from_preset(preset, **(overrides or {}))
        model_class: type[GreffePreTrainedModel] = GreffeForCausalLM
    else:
        config = read_config(folder)
        model_class = getattr(modeling_greffe, (config.architectures or ["GreffeForCausalLM"])[0])
    if num_labels is not None:
        if num_labels < 1:
            raise ValueError(f"expected --num_labels of at least 1, found {num_labels}")
        config.num_labels, model_class = num_labels, GreffeForSequenceClassification
    with torch.device("meta"):
        return model_class(config)


def read_config(folder: str) -> GreffeConfig:
    """The configuration of a model folder, or an error that says what the folder is instead."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        found = sorted(entry.name for entry in path.iterdir())[:8] if path.is_dir() else "no such folder"
        raise FileNotFoundError(f"expected a model folder with a config.json in {folder}, found {found}")
    try:
        values, _ = GreffeConfig.get_config_dict(folder)
    except OSError as error:
        raise ValueError(f"expected JSON in {path / 'config.json'}, found a damaged file; copy it again") from error
    if values.get("model_type") != GreffeConfig.model_type:
        raise ValueError(
            f"expected model_type {GreffeConfig.model_type!r} in {path / 'config.json'}, found "
            f"{values.get('model_type')!r}"
        )
    return GreffeConfig.from_pretrained(folder)


def load_model(model_class: type[GreffePreTrainedModel], folder: str, **options: Any) -> Any:
    """`from_pretrained` with a clear error for a folder that holds no model, or a damaged one."""
    read_config(folder)
    if not any(Path(folder).glob("*.safetensors")):
        raise FileNotFoundError(f"expected weights in {folder}, found no .safetensors file; copy the model again")
    try:
        loaded: Any = model_class.from_pretrained(folder, output_loading_info=True, **options)
        model, report = loaded
        # With `ignore_mismatched_sizes` a new head is meant, never a new trunk.
        trunk = [key for key in report["mismatched_keys"] if key[0].startswith(f"{model.base_model_prefix}.")]
        if trunk:
            raise MismatchError(model, folder, trunk)
        return model
    except SafetensorError as error:
        raise ValueError(f"expected whole weights in {folder}, found a damaged file: {error}; copy it again") from error
    except MismatchError as error:
        raise ValueError(
            f"expected weights of the sizes in {Path(folder, 'config.json')}, found others: {error.shapes}; copy the "
            "model again"
        ) from error


def count_parameters(model: GreffePreTrainedModel) -> list[PartCount]:
    """A count for each part; a matrix that two parts share is counted in the first."""
    parts: dict[str, list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        module = name.removeprefix(f"{model.base_model_prefix}.").split(".")
        parts[_PARTS[module[2] if module[0] == "layers" else module[0]]].append(parameter)
    return [
        PartCount(
            part,
            layers=model.config.num_hidden_layers if part in ("attention", "feed-forward", "norms") else 0,
            total=sum(p.numel() for p in parts[part]),
            matrices=sum(p.numel() for p in parts[part] if p.ndim > 1),
            trainable=sum(p.numel() for p in parts[part] if p.requires_grad),
        )
        for part in dict.fromkeys(_PARTS.values())
        if part in parts
    ]


def format_parameters(title: str, counts: list[PartCount]) -> str:
    """The counts as a table with totals."""
    rows = [
        (
            f"{count.part}, {count.layers} layers x {count.total // count.layers:,}" if count.layers else count.part,
            *(f"{value:,}" for value in (count.total, count.matrices, count.trainable, count.total - count.trainable)),
        )
        for count in counts
    ]
    total, matrices, trainable = (
        sum(getattr(count, name) for count in counts) for name in ("total", "matrices", "trainable")
    )
    rows.append(("total", *(f"{value:,}" for value in (total, matrices, trainable, total - trainable))))
    rows.insert(0, (title, "parameters", "matrices only", "trainable", "frozen"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


__all__ = ["PartCount", "count_parameters", "format_parameters", "load_model", "load_structure", "read_config"]
