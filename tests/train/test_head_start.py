"""The start of the head: the best linear classifier of what the trunk says, and from there fine-tuning goes on."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.train.finetune import finetune
from greffe.train.frozen_trunk import POOLED
from greffe.train.head_start import _STRENGTHS, start_head
from sklearn.linear_model import LogisticRegression
from tiny_models import tiny_config
from tiny_reviews import make_base, make_reviews, write_rows
from tiny_stages import finetune_options

SINGLE = "single_label_classification"


def make_rows(number: int, seed: int) -> list[dict[str, Any]]:
    """Texts of ids, of which the likelier label has more small ones."""
    draw = random.Random(seed)
    rows = []
    for _ in range(number):
        label, length = draw.randint(0, 2), draw.randint(3, 30)
        ids = [draw.randint(4 + 20 * label, 60 + 16 * label) for _ in range(length)]
        rows.append({"input_ids": ids, "labels": label, "length": length})
    return rows


def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(row["length"] for row in rows)
    ids = torch.tensor([row["input_ids"] + [1] * (longest - row["length"]) for row in rows])
    mask = torch.tensor([[1] * row["length"] + [0] * (longest - row["length"]) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([row["labels"] for row in rows])}


@pytest.mark.parametrize("kind", ["lab", "modern"])
@pytest.mark.parametrize("pooling", ["last", "mean", "layers"])
def test_the_head_is_the_regression_of_scikit_learn(pooling: str, kind: str) -> None:
    torch.manual_seed(0)
    config = tiny_config(kind, num_labels=3, problem_type=SINGLE, classifier_pooling=pooling)
    model = GreffeForSequenceClassification(config).eval()
    train, held_out = make_rows(150, seed=0), make_rows(60, seed=1)
    loss = start_head(model, train, held_out, collate, 16, show_progress=False)
    features, unseen = (torch.stack([row[POOLED] for row in rows]).numpy() for rows in (train, held_out))
    mean, spread = features.mean(0), features.std(0)
    targets = np.array([row["labels"] for row in held_out])
    found = []
    for strength in _STRENGTHS:
        reference = LogisticRegression(C=strength, max_iter=5000, tol=1e-8)
        reference.fit((features - mean) / spread, [row["labels"] for row in train])
        chances = reference.predict_proba((unseen - mean) / spread)
        found.append((-np.log(chances[np.arange(60), targets]).mean(), chances))
    expected, chances = min(found, key=lambda pair: pair[0])
    assert loss == pytest.approx(expected, abs=2e-3)
    with torch.no_grad():
        logits = torch.cat([model(**collate([row])).logits for row in held_out])
    np.testing.assert_allclose(logits.softmax(-1), chances, atol=5e-3)
    assert loss < np.log(3)  # which it would be if nothing were known


def test_fine_tuning_starts_from_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At this rate nothing is learned any more: what is known was known at the start."""
    base = make_base(tmp_path / "base")
    reviews = write_rows(tmp_path / "reviews.jsonl", make_reviews(400, seed=1))
    accuracy = {}
    for head in ("linear", "random"):
        changes = {"num_train_epochs": 1, "learning_rate": 1e-7, "pooling": "layers", "head": head}
        record = finetune(finetune_options(base, reviews, tmp_path / head, **changes))
        accuracy[head] = record["metrics"]["validation"]["accuracy"]
    assert capfd.readouterr().err.count("the head starts with a loss of") == 1
    assert accuracy["linear"] > 0.75 > accuracy["random"]
