"""Results of a comparison that never ran, with the accuracies that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from invented_text import make_documents

METHODS = ("majority", "tfidf", "scratch", "frozen", "pretrained")
# Test accuracy by method and budget, much as a small model has it on reviews.
ACCURACY = {
    "majority": {"100": 0.5, "400": 0.5, "all": 0.5},
    "tfidf": {"100": 0.69, "400": 0.76, "all": 0.83},
    "scratch": {"100": 0.56, "400": 0.67, "all": 0.765},
    "frozen": {"100": 0.68, "400": 0.73, "all": 0.755},
    "pretrained": {"100": 0.72, "400": 0.79, "all": 0.845},
}
_EPOCHS = {"scratch": 8, "frozen": 8, "pretrained": 8}
_SPEED = {"scratch": 0.45, "frozen": 0.9, "pretrained": 1.6}  # how quickly a curve comes near its end
_LAST_STEP = 0.02  # down, in the last epoch: no run ends at its best


def make_results(
    methods: Sequence[str] = METHODS,
    budgets: Sequence[str] = ("100", "400", "all"),
    seeds: int = 5,
    labels: Sequence[str] = ("neg", "pos"),
    accuracy: Mapping[str, Mapping[str, float]] = ACCURACY,
    rows: int = 400,
    spread: float = 0.008,
) -> dict[str, Any]:
    """Runs whose accuracy is as asked, give or take the spread over seeds; the same texts are hard for all methods."""
    draw = np.random.default_rng(0)
    true = np.arange(rows) % len(labels)
    draw.shuffle(true)
    hardness = draw.normal(size=rows)
    runs = [
        _make_run(method, budget, seed, accuracy[method][budget], spread, true, hardness, list(labels))
        for seed in range(seeds)
        for budget in budgets
        for method in methods
    ]
    return {
        "version": 1,
        "settings": {"model": "/home/someone/language-model", "seeds": seeds, "learning_rate": [0.0003, 0.001]},
        "task": "single_label",
        "labels": list(labels),
        "data": _describe_data(labels),
        "model": {
            "path": "language-model",
            "sha256": "1f" * 32,
            "parameters": {
                "embedding": 2097152,
                "attention": 1052672,
                "feed-forward": 2101248,
                "norms": 5120,
                "head": 514,
            },
            "pretraining": {
                "seconds": 1500.0,
                "tokens_seen": 6.6e6,
                "metrics": {"perplexity": 94.2, "bits_per_byte": 1.52},
                "corpus": ["reviews.txt"],
            },
        },
        "budgets": list(budgets),
        "seeds": list(range(seeds)),
        "methods": list(methods),
        "runs": runs,
        "test": {"texts": make_documents(rows), "labels": true.tolist()},
        "machine": {"processors": 2, "platform": "Linux"},
        "versions": {"greffe": "0.1.0", "torch": "2.13.0"},
        "seconds": 1234.5,
    }


def _make_run(
    method: str, budget: str, seed: int, accuracy: float, spread: float, true: np.ndarray, hardness: np.ndarray,
    labels: list[str],
) -> dict[str, Any]:  # fmt: skip
    draw = np.random.default_rng([seed, *map(ord, method + budget)])
    if method != "majority":
        accuracy = float(np.clip(accuracy + spread * draw.normal(), 0.02, 0.98))
        right = _choose_right(accuracy, hardness, draw)
        wrong = (true + draw.integers(1, len(labels), len(true))) % len(labels)
        found = np.where(right, true, wrong)
    else:
        found = np.zeros_like(true)
    epochs = _make_curve(accuracy, _SPEED[method], _EPOCHS[method], len(labels), draw) if method in _EPOCHS else []
    best = max(epochs, key=lambda epoch: epoch["accuracy"]) if epochs else None
    rates = (0.0003, 0.001) if seed else (0.001, 0.0003)  # chosen, rejected
    return {
        "method": method,
        "budget": budget,
        "train_rows": 1555 if budget == "all" else int(budget),
        "seed": seed,
        "epochs": epochs,
        "best_epoch": best["epoch"] if best else None,
        "chosen": {"C": 10.0} if method == "tfidf" else {"learning_rate": rates[0]} if epochs else {},
        "rejected": [{"learning_rate": rates[1], "epochs": _lower(epochs)}] if epochs else [],
        "validation": {"accuracy": best["accuracy"] if best else accuracy + 0.005},
        "test": _score(found, true, labels),
        "predictions": _make_probabilities(found, len(labels), draw),
        "seconds": {"majority": 0.01, "tfidf": 1.1}.get(method, 14.2),
    }


def _choose_right(accuracy: float, hardness: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """So many texts that the accuracy is as asked: the easiest, as this run finds them."""
    felt = 0.9 * hardness + 0.45 * draw.normal(size=len(hardness))
    right = np.zeros(len(hardness), bool)
    right[np.argsort(felt)[: round(accuracy * len(hardness))]] = True
    return right


def _make_curve(
    final: float, speed: float, epochs: int, classes: int, draw: np.random.Generator
) -> list[dict[str, Any]]:
    chance = min(1 / classes, final)
    heights = final - (final - chance) * np.exp(-speed * np.arange(1, epochs + 1)) + 0.006 * draw.normal(size=epochs)
    heights[-1] = min(heights[-1], heights[-2] - _LAST_STEP)
    return [
        {"epoch": epoch, "accuracy": float(height), "loss": float(-np.log(max(height, 0.01)))}
        for epoch, height in enumerate(heights, 1)
    ]


def _lower(epochs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**epoch, "accuracy": 0.9 * epoch["accuracy"]} for epoch in epochs]


def _make_probabilities(found: np.ndarray, classes: int, draw: np.random.Generator) -> list[list[float]]:
    sure = draw.uniform(1.02 / classes, 1, len(found))
    probabilities = np.repeat(((1 - sure) / (classes - 1))[:, None], classes, axis=1)
    probabilities[np.arange(len(found)), found] = sure
    return probabilities.round(6).tolist()


def _score(found: np.ndarray, true: np.ndarray, labels: list[str]) -> dict[str, Any]:
    matrix = np.zeros((len(labels), len(labels)), int)
    np.add.at(matrix, (true, found), 1)
    right = np.diag(matrix)
    precision, recall = right / np.maximum(matrix.sum(axis=0), 1), right / np.maximum(matrix.sum(axis=1), 1)
    f1 = 2 * right / np.maximum(matrix.sum(axis=0) + matrix.sum(axis=1), 1)
    return {
        "accuracy": float((found == true).mean()),
        "macro_f1": float(f1.mean()),
        "loss": 0.5,
        "confusion_matrix": matrix.tolist(),
        "per_class": {
            label: {"precision": float(p), "recall": float(r), "f1": float(f), "rows": int(n)}
            for label, p, r, f, n in zip(labels, precision, recall, f1, matrix.sum(axis=1), strict=True)
        },
    }


def _describe_data(labels: Sequence[str]) -> dict[str, Any]:
    parts = {"train": (1600, 1555), "validation": (400, 390), "test": (2000, 2000)}
    described: dict[str, Any] = {
        name: {
            "file": f"{name}.jsonl",
            "sha256": f"{number}a" * 32,
            "rows": rows,
            "used": used,
            "classes": {label: used // len(labels) for label in labels},
        }
        for number, (name, (rows, used)) in enumerate(parts.items())
    }
    table = ["overlap             exact  near  first", "train in test          41     4  train.jsonl:7 = test.jsonl:12"]
    leaks = [
        {"part": part, "other": "test", "exact": exact, "near": near, "example": f"{part}.jsonl:7 = test.jsonl:12"}
        for part, exact, near in (("train", 41, 4), ("validation", 10, 0))
    ]
    overlap = {"removed": {"train": 45, "validation": 10}, "leaks": leaks, "description": table}
    return {**described, "overlap": overlap}


def remove_runs(results: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    """The results without the runs that have these values, as if they were not finished."""
    left = [run for run in results["runs"] if any(run[name] != value for name, value in wanted.items())]
    return {**results, "runs": left}
