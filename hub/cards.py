"""The card of a model, from what the stages of its making saved beside the weights.

`greffe.json` says how the model was made, `config.json` what it is, the header of the weights how large it is. Each is
used as far as it is there: a folder made by anything else has a card too, with less in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .card_sections import (
    base_model,
    dataset_names,
    describe,
    explain_loading,
    part_files,
    single_numbers,
    tell_data,
    tell_limits,
    tell_making,
    tell_results,
)

CARD = "README.md"
# The last line of a card that was made here. Who edits the card takes the line out, or loses the edit.
MARK = "<!-- This card is made anew at each push. Remove this line to keep what you write. -->"
# What transformers writes when a model is pushed without a card: sections of "[More Information Needed]".
_PLACEHOLDER = "This model card has been automatically generated."

_TASKS = {
    "ForCausalLM": "text-generation",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
}


def is_replaceable(card: Path) -> bool:
    """Whether nobody wrote this card: it was made here, or by transformers from nothing."""
    text = card.read_text(encoding="utf-8", errors="replace")
    return MARK in text or _PLACEHOLDER in text


def make_card(name: str, files: Mapping[str, Path], in_hub: bool = True) -> str:
    """The text of README.md for the files of a model: a repository of the hub, or else a folder, by its name."""
    from huggingface_hub import ModelCard

    making, config = _read(files, "greffe.json"), _read(files, "config.json")
    architecture = next((name for name in _texts(config.get("architectures"))), "")
    task = next((task for suffix, task in _TASKS.items() if architecture.endswith(suffix)), None)
    parameters = count_parameters([file for path, file in files.items() if path.endswith(".safetensors")])
    data = _metadata(name, making, config, task)
    sections = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {name}\n",
        describe(architecture, making, config, parameters),
        explain_loading(name, task, config, in_hub),
        tell_results(making),
        tell_data(making),
        tell_making(making),
        tell_limits(making, config),
        MARK,
    ]
    return str(ModelCard("\n".join(section for section in sections if section) + "\n", ignore_metadata_errors=True))


def read_metadata(card: Path) -> dict[str, Any]:
    """The YAML block of a card; empty if there is none, or none that can be read."""
    import yaml
    from huggingface_hub import ModelCard

    try:
        card_text = card.read_text(encoding="utf-8", errors="replace")
        return dict(ModelCard(card_text, ignore_metadata_errors=True).data.to_dict())
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
        return {}


def count_parameters(weights: list[Path]) -> int:
    """The numbers in safetensors files, from their headers alone."""
    return sum(sum(_tensor_sizes(file)) for file in weights)


def _tensor_sizes(file: Path) -> list[int]:
    with open(file, "rb") as stream:
        try:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(min(length, 100_000_000)))
            sizes = []
            for name, tensor in header.items():
                if name != "__metadata__":
                    size = 1
                    for dimension in tensor["shape"]:
                        size *= int(dimension)
                    sizes.append(size)
            return sizes
        except (struct.error, ValueError, KeyError, TypeError, AttributeError):
            return []  # not weights, whatever its name says


def _metadata(name: str, making: dict[str, Any], config: dict[str, Any], task: str | None) -> Any:
    from huggingface_hub import EvalResult, ModelCardData

    metrics, datasets, files = single_numbers(making), dataset_names(making), part_files(making)
    results = [
        EvalResult(
            task_type=task or "other",
            dataset_type=files.get(part, datasets[0] if datasets else "private"),
            dataset_name=files.get(part, datasets[0] if datasets else "private"),
            dataset_split=part or None,
            metric_type=metric,
            metric_value=value,
        )
        for part, metric, value in metrics
    ]
    tags = ["greffe"] * (config.get("model_type") == "greffe") + ["custom_code"] * bool(config.get("auto_map"))
    return ModelCardData(
        language=_one_or_many(_texts(making.get("language"))),
        library_name="transformers",
        pipeline_tag=task,
        tags=tags or None,
        base_model=base_model(making) or None,
        datasets=datasets or None,
        metrics=list(dict.fromkeys(metric for _, metric, _ in metrics)) or None,
        model_name=name if results else None,
        eval_results=results or None,
        ignore_metadata_errors=True,
    )


def _read(files: Mapping[str, Path], name: str) -> dict[str, Any]:
    try:
        record = json.loads(files[name].read_text(encoding="utf-8"))
    except (KeyError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


def _one_or_many(values: list[str]) -> str | list[str] | None:
    return values[0] if len(values) == 1 else values or None


__all__ = ["CARD", "count_parameters", "is_replaceable", "make_card", "read_metadata"]
