"""The card of a model, from what the stages of its making saved beside the weights.

`greffe.json` says how the model was made, `config.json` what it is, the header of the weights how large it is. Each is
used as far as it is there: a folder made by anything else has a card too, with less in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

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
_CLASSES = {
    "text-generation": "AutoModelForCausalLM",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
}


def is_replaceable(card: Path) -> bool:
    """Whether nobody wrote this card: it was made here, or by transformers from nothing."""
    text = card.read_text(encoding="utf-8", errors="replace")
    return MARK in text or _PLACEHOLDER in text


def make_card(repo_id: str, files: Mapping[str, Path]) -> str:
    """The text of README.md for the files of a model folder."""
    from huggingface_hub import ModelCard

    making, config = _read(files, "greffe.json"), _read(files, "config.json")
    architecture = next((name for name in _texts(config.get("architectures"))), "")
    task = next((task for suffix, task in _TASKS.items() if architecture.endswith(suffix)), None)
    parameters = count_parameters([file for path, file in files.items() if path.endswith(".safetensors")])
    data = _metadata(repo_id, making, config, task)
    sections = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {repo_id}\n",
        _describe(architecture, making, config, parameters),
        _loading(repo_id, task, bool(config.get("auto_map"))),
        _results(making),
        _making(making),
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


def _metadata(repo_id: str, making: dict[str, Any], config: dict[str, Any], task: str | None) -> Any:
    from huggingface_hub import EvalResult, ModelCardData

    metrics, datasets = _metrics(making), _datasets(making)
    results = [
        EvalResult(
            task_type=task or "other",
            dataset_type=datasets[0] if datasets else "private",
            dataset_name=datasets[0] if datasets else "private",
            metric_type=name,
            metric_value=value,
        )
        for name, value in metrics.items()
    ]
    tags = ["greffe"] * (config.get("model_type") == "greffe") + ["custom_code"] * bool(config.get("auto_map"))
    return ModelCardData(
        language=_one_or_many(_texts(making.get("language"))),
        library_name="transformers",
        pipeline_tag=task,
        tags=tags or None,
        base_model=_base_model(making) or None,
        datasets=datasets or None,
        metrics=[*metrics] or None,
        model_name=repo_id if results else None,
        eval_results=results or None,
        ignore_metadata_errors=True,
    )


def _describe(architecture: str, making: dict[str, Any], config: dict[str, Any], parameters: int) -> str:
    kind = f"`{architecture}`" if architecture else "A model"
    size = f" of {parameters:,} parameters" if parameters else ""
    shape = [
        f"{config[name]:,} {words}"
        for name, words in (
            ("num_hidden_layers", "layers"),
            ("hidden_size", "wide"),
            ("num_attention_heads", "attention heads"),
            ("vocab_size", "tokens in the vocabulary"),
        )
        if isinstance(config.get(name), int)
    ]
    lines = [f"{kind}{size}" + (f": {', '.join(shape)}." if shape else ".")]
    labels = config.get("id2label")
    if architecture.endswith("Classification") and isinstance(labels, dict):
        lines.append(f"Labels: {', '.join(map(str, labels.values()))}.")
    if base := _base_model(making):
        revision = making.get("base_revision")
        lines.append(f"Made from `{base}`" + (f" at revision `{revision}`." if isinstance(revision, str) else "."))
    return "\n".join(lines) + "\n"


def _loading(repo_id: str, task: str | None, has_code: bool) -> str:
    trust = ", trust_remote_code=True" if has_code else ""
    auto_class = _CLASSES.get(task or "", "AutoModel")
    return f"""## How to load it
`greffe hub env` prints the variables that make these lines find the local hub.

```python
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{repo_id}"{trust})
model = {auto_class}.from_pretrained("{repo_id}"{trust})
```
"""


def _results(making: dict[str, Any]) -> str:
    metrics = _metrics(making)
    if not metrics:
        return ""
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items())
    return f"## Results\n| metric | value |\n|---|---|\n{rows}\n"


def _making(making: dict[str, Any]) -> str:
    lines = []
    if isinstance(stage := making.get("stage"), str):
        lines.append(f"- stage: {stage}")
    if datasets := _datasets(making):
        lines.append(f"- data: {', '.join(datasets)}")
    if isinstance(versions := making.get("versions"), dict):
        lines.append("- versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    return "\n".join(["## How it was made", *lines]) + "\n" if lines else ""


def _read(files: Mapping[str, Path], name: str) -> dict[str, Any]:
    try:
        record = json.loads(files[name].read_text(encoding="utf-8"))
    except (KeyError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _metrics(making: dict[str, Any]) -> dict[str, float]:
    """The single numbers among the metrics; those of a part, such as the test set, with its name before theirs."""
    metrics = making.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    flat = {}
    for name, value in metrics.items():
        parts = {f"{name}_{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        flat.update({str(key): item for key, item in parts.items() if isinstance(item, (int, float))})
    return {name: value for name, value in flat.items() if not isinstance(value, bool)}


def _datasets(making: dict[str, Any]) -> list[str]:
    """Names of the data: a list, or the fingerprints by file. Of a path only the last part: the rest is the user's."""
    data = making.get("datasets", making.get("data"))
    if isinstance(data, dict):
        names = [*data]
    else:
        names = [
            item.get("name", item.get("path", item.get("file"))) if isinstance(item, dict) else item
            for item in (data if isinstance(data, list) else [data])
        ]
    return list(dict.fromkeys(_without_folders(name) for name in names if isinstance(name, str) and name))


def _base_model(making: dict[str, Any]) -> str:
    base = making.get("base_model")
    if isinstance(base, dict):
        base = base.get("name", base.get("path"))
    return _without_folders(base) if isinstance(base, str) else ""


def _without_folders(name: str) -> str:
    """`org/name` stays, `/home/someone/models/base` becomes `base`."""
    is_path = name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or Path(name).exists()
    return PurePath(name.replace("\\", "/")).name if is_path else name


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


def _one_or_many(values: list[str]) -> str | list[str] | None:
    return values[0] if len(values) == 1 else values or None


__all__ = ["CARD", "count_parameters", "is_replaceable", "make_card", "read_metadata"]
