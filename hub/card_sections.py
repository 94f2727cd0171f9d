"""What a card says, section by section, from the record of a run and the configuration of its model.

Records come from anywhere: what is not of the expected kind is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

AUTO_CLASSES = {
    "text-generation": "AutoModelForCausalLM",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
}
_MOST_CLASSES = 20  # in the tables of a card; more are in the record alone
_KINDS = {
    "multi_label_classification": "A classifier of texts, several labels each",
    "regression": "A regression on texts",
}
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/([0-9a-f]{7,})")  # where the hub keeps a revision
# Options that tell of somebody's machine, or of nothing that made the model.
_NOT_SHOWN = {
    *("corpus", "train", "validation", "test", "model", "tokenizer", "dictionary", "output", "config"),
    *("text_column", "label_column", "label_separator", "separator", "errors", "sample_prompt"),
    *("resume", "tensorboard", "save_steps", "save_total_limit", "per_device_eval_batch_size"),
}


def describe(architecture: str, making: Mapping[str, Any], config: Mapping[str, Any], parameters: int) -> str:
    """What it is, how large, which labels it gives, and what it was made from."""
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
    if making.get("stage") in ("pretrain", "finetune"):
        lines.insert(0, f"{_KINDS.get(str(config.get('problem_type')), _kind_of(architecture))}, made with Greffe.")
    labels = config.get("id2label")
    if architecture.endswith("Classification") and isinstance(labels, dict):
        lines.append(f"Labels: {', '.join(in_line(label) for label in labels.values())}.")
    if base := base_model(making):
        revision = _base_revision(making)
        whole = f"`{base}`" + (f" at revision `{revision}`" if revision else "")
        drawn = _dict(making.get("arguments")).get("from_scratch") is True
        lines.append(f"The architecture of {whole}, its weights drawn at random." if drawn else f"Made from {whole}.")
    return "\n".join(lines) + "\n"


def _kind_of(architecture: str) -> str:
    if architecture.endswith("Classification"):
        return "A classifier of texts"
    return "A language model, to write with, to fill gaps or to graft a classifier onto"


def explain_loading(name: str, task: str | None, config: Mapping[str, Any], in_hub: bool) -> str:
    """Lines to copy: from the local hub by name, or from a folder by its path."""
    trust = ", trust_remote_code=True" if config.get("auto_map") else ""
    auto_class = AUTO_CLASSES.get(task or "", "AutoModel")
    where = (
        "`greffe hub env` prints the variables that make these lines find the local hub."
        if in_hub
        else f"From the folder that holds `{name}`; `greffe hub push {name} ORGANISATION/NAME` gives it a name for all."
    )
    graft = f"\n`greffe finetune --model {name} --train FILE --output DIR` grafts a classifier onto it.\n"
    return f"""## How to load it
{where}

```python
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = {auto_class}.from_pretrained("{name}"{trust})
```
{graft if task in ("text-generation", "fill-mask") and config.get("model_type") == "greffe" else ""}"""


def tell_results(making: Mapping[str, Any]) -> str:
    """A table of the single numbers, a column for each part; then, part by part, the classes."""
    metrics = _dict(making.get("metrics"))
    parts = {str(name): value for name, value in metrics.items() if isinstance(value, dict)}
    plain = {str(name): value for name, value in metrics.items() if _is_number(value)}
    rows = [[name, _figure(value)] for name, value in plain.items()]
    sections = [_table(["metric", "value"], rows)] if rows else []
    names = dict.fromkeys(key for part in parts.values() for key, value in part.items() if _is_number(value))
    if names:
        ordered = sorted(names, key=lambda name: name == "loss")  # what people ask for comes first
        rows = [[in_line(name), *(_figure(part.get(name)) for part in parts.values())] for name in ordered]
        sections.append(_table(["metric", *map(in_line, parts)], rows))
    for name, part in parts.items():
        sections += _tell_classes(in_line(name), part)
    return "\n".join(["## Results", *sections]) if sections else ""


def _tell_classes(part: str, metrics: Mapping[str, Any]) -> list[str]:
    scores = {str(name): value for name, value in _dict(metrics.get("per_class")).items() if isinstance(value, dict)}
    if not scores:
        return []
    if len(scores) > _MOST_CLASSES:
        return [f"The scores of the {len(scores)} classes on {part} are in `greffe.json`.\n"]
    columns = ("precision", "recall", "f1", "rows")
    rows = [[in_line(name), *(_figure(value.get(column)) for column in columns)] for name, value in scores.items()]
    sections = [f"Each class on {part}:\n", _table([part, *columns], rows)]
    matrix = metrics.get("confusion_matrix")
    if isinstance(matrix, list) and len(matrix) == len(scores) and all(isinstance(row, list) for row in matrix):
        titles = ["true \\ predicted", *map(in_line, scores)]
        rows = [[in_line(name), *map(_figure, row)] for name, row in zip(scores, matrix, strict=True)]
        sections.append(_table(titles, rows))
    return sections


def tell_data(making: Mapping[str, Any]) -> str:
    """How much there was of each part, and what the check before training found in them."""
    data = _dict(making.get("data"))
    lines = [*_count_rows(data), *_tell_overlap(data, _dict(making.get("arguments")).get("deduplicate") is True)]
    counts = (
        ("documents", "documents to train on"),
        ("tokens", "tokens in them"),
        ("dropped_tokens", "tokens dropped at the end"),
        ("validation_documents", "documents for validation"),
    )
    lines += [f"- {data[name]:,} {words}" for name, words in counts if _is_number(data.get(name))]
    return "\n".join(["## Data", *lines]) + "\n" if lines else ""


def _count_rows(data: Mapping[str, Any]) -> list[str]:
    used, lines = _dict(data.get("rows")), []
    for part in _dicts(data.get("parts")):
        rows = used.get(str(part.get("name")), part.get("rows"))
        if _is_number(rows):
            notes = [
                f"{part[name]:,} {words}"
                for name, words in (
                    ("duplicates", "repeated"),
                    ("near_duplicates", "nearly repeated"),
                    ("blank", "blank"),
                )
                if _is_number(part.get(name)) and part[name]
            ]
            file = f", of {without_folders(part['file'])}" if isinstance(part.get("file"), str) else ""
            found = f" (as read: {', '.join(notes)})" if notes else ""
            lines.append(f"- {in_line(part.get('name'))}: {rows:,} texts{file}{found}")
    return lines


def _tell_overlap(data: Mapping[str, Any], removed: bool) -> list[str]:
    if not isinstance(data.get("leaks"), list):
        return []
    leaks = [
        f"{leak.get('exact')} texts of {in_line(leak.get('part'))} stand in {in_line(leak.get('other'))}, and "
        f"{leak.get('near')} nearly"
        for leak in _dicts(data["leaks"])
    ]
    if not leaks:
        return ["- overlap: no text stands in two parts, exactly or nearly"]
    return [f"- overlap: {'; '.join(leaks)}: " + ("they were removed" if removed else "they were **not** removed")]


def tell_making(making: Mapping[str, Any]) -> str:
    """The command, its options, and how long it took."""
    lines = []
    if isinstance(stage := making.get("stage"), str):
        lines.append(f"- stage: {in_line(stage)}")
    if names := dataset_names(making):
        lines.append(f"- data: {', '.join(map(in_line, names))}")
    if _is_number(steps := making.get("steps")):
        best = f", the best after {making['best_step']:,}" if _is_number(making.get("best_step")) else ""
        seconds = f", in {making['seconds']:,.0f} s" if _is_number(making.get("seconds")) else ""
        lines.append(f"- steps: {steps:,}{best}{seconds}")
    options = {
        name: value
        for name, value in _dict(making.get("arguments")).items()
        if name not in _NOT_SHOWN and value is not None and value is not False and value not in ("", "none")
    }
    if options:
        shown = (f"{name} {value}".replace("`", "'") for name, value in options.items())
        lines.append("- options: " + ", ".join(f"`{' '.join(option.split())}`" for option in shown))
    if isinstance(versions := making.get("versions"), dict):
        lines.append("- versions: " + ", ".join(f"{in_line(name)} {in_line(v)}" for name, v in versions.items()))
    return "\n".join(["## How it was made", *lines]) + "\n" if lines else ""


def tell_limits(making: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """One honest line: what the figures do not say."""
    if making.get("stage") == "pretrain":
        line = (
            "It writes what its corpus makes likely, true or not, fair or not. The figures are of documents of that "
            "corpus, and tell nothing of other text."
        )
    elif making.get("stage") == "finetune":
        if "test" in _dict(making.get("metrics")):
            line = "The figures hold for texts like those of the test file"
        else:
            line = "The epoch was chosen by the figures on validation: expect less on new texts"
        if config.get("problem_type") == "single_label_classification":
            line += (
                "; any text, in whatever language, gets one of the labels, with a probability that was not calibrated"
            )
        line += "."
    else:
        return ""
    return f"## Limits\n{line}\n"


def single_numbers(making: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """The single numbers among the metrics, with the part that they are of, where they are of one."""
    found: list[tuple[str, str, float]] = []
    for name, value in _dict(making.get("metrics")).items():
        of_part = value.items() if isinstance(value, dict) else []
        found += [(str(name), str(key), item) for key, item in of_part if _is_number(item)]
        found += [("", str(name), value)] if _is_number(value) else []
    return found


def dataset_names(making: Mapping[str, Any]) -> list[str]:
    """Names of the data: a list, or the fingerprints by file. Of a path only the last part: the rest is the user's."""
    data = making.get("datasets", making.get("data"))
    if isinstance(data, dict):
        names = [*data]
    else:
        names = [
            item.get("name", item.get("path", item.get("file"))) if isinstance(item, dict) else item
            for item in (data if isinstance(data, list) else [data])
        ]
    return list(dict.fromkeys(without_folders(name) for name in names if isinstance(name, str) and name))


def part_files(making: Mapping[str, Any]) -> dict[str, str]:
    """The file that each part came from."""
    parts = _dicts(_dict(making.get("data")).get("parts"))
    return {str(part.get("name")): without_folders(part["file"]) for part in parts if isinstance(part.get("file"), str)}


def base_model(making: Mapping[str, Any]) -> str:
    base = making.get("base_model")
    if isinstance(base, dict):
        base = base.get("name", base.get("path"))
    return without_folders(base) if isinstance(base, str) else ""


def _base_revision(making: Mapping[str, Any]) -> str:
    revision, base = making.get("base_revision"), _dict(making.get("base_model")).get("path")
    if isinstance(revision, str):
        return revision
    in_hub = _SNAPSHOT.search(base) if isinstance(base, str) else None
    return in_hub[2][:12] if in_hub else ""


def without_folders(name: str) -> str:
    """`org/name` stays, `/home/someone/models/base` becomes `base`, a revision in a local hub becomes `org/name`."""
    if in_hub := _SNAPSHOT.search(name.replace("\\", "/")):
        return in_hub[1].replace("--", "/")
    is_path = name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1
    is_path = is_path or (len(name) < 200 and Path(name).exists())
    return PurePath(name.replace("\\", "/")).name if is_path else name


def in_line(value: object) -> str:
    """A value as a part of a line or of a cell: no line break, no bar and no mark-up of its own."""
    text = " ".join(str(value).split())
    return re.sub(r"([\\`|<>*\[\]])", r"\\\1", text if len(text) <= 80 else text[:79] + "…")


def _table(titles: list[str], rows: Iterable[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (titles, *rows)]
    lines.insert(1, "|---" * len(titles) + "|")
    return "\n".join(lines) + "\n"


def _figure(value: object) -> str:
    if not _is_number(value):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
