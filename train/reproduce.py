"""`greffe reproduce`: the reference experiment as one command, its claims beside what was measured.

Its architecture and vocabulary, a text a row and whole, Adam at a constant rate without decay or clipping, its batch
sizes, and the last token as what the classifier reads. Three things differ, and are said below the table: accuracy by
epoch is that of validation, the test set being used once; texts that stand in the test set are removed; results have a
spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from greffe.modeling.parameters import count_parameters, load_structure
from greffe.tokenization import read_corpus, save_tokenizer

from .arguments import CompareArguments, PretrainArguments
from .comparison.compare import check_extra, check_runs, compare
from .comparison.inputs import check_inputs, fingerprint_files
from .comparison.statistics import find_near_best
from .pretrain import pretrain_once
from .stage_trainer import announce

LANGUAGE_MODEL, COMPARISON, TOKENIZER = "language-model", "comparison", "tokenizer"
# Tokens of the longest text that is read whole; the longest of the experiment's has 1,784 pieces.
WHOLE = 4096
BATCH = 16  # of stage 1
# Of both stages. The experiment computed in fp32.
PLAIN: dict[str, Any] = {
    "lr_scheduler_type": "constant",
    "warmup_steps": 0.0,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "bf16": "off",
}


@dataclass(frozen=True)
class ReproduceArguments:
    """What the experiment leaves open: where the data is, and how long to go on."""

    data: str
    corpus: list[str]
    output: str
    max_steps: int = 3000
    epochs: int = 10
    seeds: int = 3


def reproduce(arguments: ReproduceArguments) -> str:
    """Both stages of the experiment, and the table of its claims. Run again, it goes on where it was."""
    check_extra()
    data, folder = Path(arguments.data), Path(arguments.output)
    comparison = comparison_arguments(arguments)
    check_runs(comparison)
    pieces = find_files(data)
    # What the language model depends on; other labelled texts are noticed by the comparison, which begins anew.
    corpus = fingerprint_files(read_corpus(arguments.corpus).sources)
    vocabulary = fingerprint_files([pieces, data / "dict.txt"])
    check_inputs(folder, {"corpus": corpus, "vocabulary": vocabulary})
    if not (folder / TOKENIZER).is_dir():
        from greffe.tokenization.sentencepiece_import import import_sentencepiece

        save_tokenizer(import_sentencepiece(pieces, data / "dict.txt"), folder / TOKENIZER)
    announce("stage 1: the language model")
    record = pretrain_once(pretraining_arguments(arguments))
    announce("stage 2: the sentiment of French book reviews")
    results = compare(comparison)
    claims = format_claims(list_claims(folder / LANGUAGE_MODEL, record, results))
    return f"{claims}\n\n{explain_differences(results)}"


def pretraining_arguments(arguments: ReproduceArguments) -> PretrainArguments:
    folder = Path(arguments.output)
    return PretrainArguments(
        corpus=arguments.corpus,
        output=str(folder / LANGUAGE_MODEL),
        tokenizer=str(folder / TOKENIZER),
        preset="lab",
        embeddings="random",
        packing=False,
        block_size=WHOLE,
        per_device_train_batch_size=BATCH,
        learning_rate=3e-4,
        max_steps=arguments.max_steps,
        eval_steps=500,
        **PLAIN,
    )


def comparison_arguments(arguments: ReproduceArguments) -> CompareArguments:
    data, folder = Path(arguments.data), Path(arguments.output)
    return CompareArguments(
        model=str(folder / LANGUAGE_MODEL),
        train=str(data / "train.review.spm"),
        validation=str(data / "valid.review.spm"),
        test=str(data / "test.review.spm"),
        output=str(folder / COMPARISON),
        seeds=arguments.seeds,
        pooling="last",
        max_length=WHOLE,
        per_device_train_batch_size=8,
        num_train_epochs=arguments.epochs,
        learning_rate=[1e-4],
        frozen_learning_rate=[1e-4, 1e-3],
        **PLAIN,
    )


def find_files(data: Path) -> Path:
    """The SentencePiece model, once everything else is known to be there: stage 1 takes hours."""
    model = find_sentencepiece(data)
    parts = [f"{part}.{kind}" for part in ("train", "valid", "test") for kind in ("review.spm", "label")]
    missing = [name for name in (*parts, "dict.txt") if not (data / name).is_file()]
    if missing:
        raise FileNotFoundError(f"expected {', '.join(missing)} in {data}, as the experiment has it, found none")
    return model


def find_sentencepiece(data: Path) -> Path:
    found = sorted(data.glob("*.model")) if data.is_dir() else []
    if len(found) != 1:
        names = [path.name for path in found] or "none"
        raise FileNotFoundError(f"expected one SentencePiece model, *.model, in the folder {data}, found {names}")
    return found[0]


def list_claims(model: Path, record: dict[str, Any], results: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What is claimed, what the write-ups have, what was measured."""
    labels = len(results["labels"])
    counts = [
        sum(count.total for count in count_parameters(load_structure(str(model), num_labels=number)))
        for number in (None, labels)
    ]
    perplexities = {round(entry["step"]): entry["perplexity"] for entry in record["evaluations"]}
    perplexities[record["steps"]] = record["metrics"].get("perplexity")
    two_epochs = math.ceil(2 * record["data"]["documents"] / BATCH)
    claims = [
        ("parameters, language model", "21,018,401", f"{counts[0]:,}"),
        ("parameters, classifier", "10,968,602", f"{counts[1]:,}"),
        ("matrices of 6 layers, 5,000 tokens, language model", "3,440,000", f"{_count_matrices(None):,}"),
        ("matrices of 6 layers, 5,000 tokens, classifier", "2,440,400", f"{_count_matrices(2):,}"),
        ("perplexity after 500 steps", "1442", _perplexity(perplexities.get(500))),
        ("perplexity after 3,000 steps", "330", _perplexity(perplexities.get(3000))),
        ("perplexity after two epochs", "211", _perplexity(_after(perplexities, two_epochs))),
        (f"perplexity at the end, step {record['steps']:,}", "-", _perplexity(perplexities[record["steps"]])),
    ]
    for method, first, best, epochs in (
        ("scratch", "50 to 50.2 %", "75 to 80 %", "4 to 10"),
        ("pretrained", "75 to 76.8 %", "about 80 %", "2 to 3"),
    ):
        name = "from scratch" if method == "scratch" else "pre-trained"
        runs = [run for run in results["runs"] if run["method"] == method]
        claims += [
            (f"{name}: after epoch 1", first, _spread([run["epochs"][0]["accuracy"] for run in runs])),
            (f"{name}: epochs to 95 % of its best", epochs, _near_best(runs)),
            (f"{name}: test accuracy", best, _spread(_tests(results, method))),
        ]
    gain = np.subtract(_tests(results, "pretrained"), _tests(results, "scratch"))
    claims += [
        ("the gain, in points", "1.5 to 5", f"{100 * gain.mean():+.1f}" + _deviation(100 * gain)),
        ("trunk frozen: test accuracy", "68.6 to 72.9 %", _spread(_tests(results, "frozen"))),
        ("TF-IDF + logistic regression", "83.2 %", _spread(_tests(results, "tfidf"))),
    ]
    return claims


def format_claims(claims: list[tuple[str, str, str]]) -> str:
    """A table for the terminal."""
    rows = [("", "write-ups", "measured"), *claims]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def explain_differences(results: dict[str, Any]) -> str:
    """In what this is not the experiment."""
    removed, seeds = results["data"]["overlap"]["removed"], len(results["seeds"])
    spread = f"means over {seeds} seeds, ± their standard deviation" if seeds > 1 else "those of one seed"
    return (
        "Three things differ from the write-ups. Accuracy after an epoch is that of validation, and the test set is "
        "looked at once,\nby the epoch that validation chose. Texts that stand in the test set are removed: "
        f"{removed['train']:,} of train and {removed['validation']:,} of validation.\nFigures of stage 2 are {spread}."
    )


def _count_matrices(labels: int | None) -> int:
    """Without biases and norms, as a write-up counts a model of its own size."""
    sizes = {"vocab_size": 5000, "num_hidden_layers": 6}
    return sum(count.matrices for count in count_parameters(load_structure(num_labels=labels, overrides=sizes)))


def _after(perplexities: dict[int, float | None], step: int) -> float | None:
    """What the first evaluation found that was not before a step."""
    return next((found for place, found in sorted(perplexities.items()) if place >= step), None)


def _tests(results: dict[str, Any], method: str) -> list[float]:
    return [run["test"]["accuracy"] for run in results["runs"] if run["method"] == method]


def _spread(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} %" + _deviation(100 * np.asarray(values))


def _deviation(values: np.ndarray) -> str:
    return f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""


def _near_best(runs: list[dict[str, Any]]) -> str:
    found = [near for run in runs if (near := find_near_best(run["epochs"])) is not None]
    return f"{np.mean([epoch for epoch, _ in found]):.1f}"


def _perplexity(value: float | None) -> str:
    return "not reached" if value is None else f"{value:,.0f}"


__all__ = ["ReproduceArguments", "reproduce"]
