"""A trained model out of its folder, ready to be used: the head that was saved, its weights, its tokenizer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from greffe.hub import resolve_model
from greffe.modeling import GreffePreTrainedModel, modeling_greffe
from greffe.modeling.parameters import load_model, read_config
from greffe.tokenization import check_compatible, load_tokenizer
from safetensors import safe_open

# What can be done with each head, for the error that meets another one.
_USES = {
    "GreffeForCausalLM": "a language model; `greffe generate` continues texts with it, and `greffe finetune` makes it "
    "a classifier",
    "GreffeForMaskedLM": "a masked language model, which fills gaps and cannot continue a text; `greffe finetune` "
    "makes it a classifier",
    "GreffeForSequenceClassification": "a classifier; use it with `greffe predict`",
    "GreffeModel": "a trunk without a head; `greffe finetune` grafts one onto it",
}


def find_model(model: str | os.PathLike[str]) -> tuple[Path, str]:
    """The folder of a model, given as a folder or as `organisation/name[@revision]`, and the head that it holds."""
    folder = resolve_model(model)
    config = read_config(str(folder))
    head = (config.architectures or ["GreffeForCausalLM"])[0]
    if head not in _USES:
        raise ValueError(f"expected a model among {sorted(_USES)} in {folder}, found {head}")
    return folder, head


def load_head(model: str | os.PathLike[str], head: str, wanted: str) -> tuple[Path, Any, Any]:
    """The folder, the model in evaluation mode and fp32, and the tokenizer; another head is refused, not replaced.

    Weights are read from safetensors alone: no code of a file is run.
    """
    folder, found = find_model(model)
    if found != head:
        raise ValueError(f"expected {wanted} in {folder}, found {_USES[found]}")
    if not list(folder.glob("*.safetensors")):
        files = sorted(name for name in os.listdir(folder) if not name.endswith(".py"))
        raise FileNotFoundError(f"expected weights as *.safetensors in {folder}, found {files[:8]}")
    model_class: type[GreffePreTrainedModel] = getattr(modeling_greffe, head)
    loaded = load_model(model_class, str(folder), use_safetensors=True, dtype=torch.float32)
    stored = set[str]().union(*(safe_open(path, "pt").keys() for path in folder.glob("*.safetensors")))
    named = [*loaded.named_parameters(), *loaded.named_buffers()]
    missing = [name for name, _ in named if name not in stored]
    if missing:  # the library has made them anew
        raise ValueError(f"expected the weights of {head} in {folder}, found none for {missing}; save the model again")
    tokenizer = load_tokenizer(folder)
    check_compatible(loaded, tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return folder, loaded.to(device).eval(), tokenizer


def read_record(folder: Path) -> dict[str, Any]:
    """What the stage that made the model wrote about it; empty for a model that came otherwise."""
    path = folder / "greffe.json"
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"expected JSON in {path}, found: {error}") from None
    return record if isinstance(record, dict) else {}


__all__ = ["find_model", "load_head", "read_record"]
