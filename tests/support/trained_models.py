"""Tiny models that have learned something, with their tokenizers, as the stages leave them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.tokenization import load_tokenizer, save_tokenizer, train_tokenizer
from greffe.tokenization.spelling import spell_tokens
from invented_text import make_documents
from tiny_models import tiny_config

WORDS = {"positif": "oui", "négatif": "non"}
# What `greffe.json` says of the truncation: so short that many texts are cut, at a place that is not the default.
MAX_LENGTH, TRUNCATION = 24, "both"


def make_reviews(number: int, seed: int) -> list[dict[str, Any]]:
    """A word decides: "oui" in the texts of one label, "non" in those of the other. It is among the first words."""
    draw = random.Random(seed)
    rows = []
    for document in make_documents(number, seed=seed):
        label = draw.choice(sorted(WORDS))
        words = document.split()
        words.insert(draw.randint(1, 3), WORDS[label])
        rows.append({"text": " ".join(words), "label": label})
    return rows


def save_classifier(folder: Path, steps: int = 80, **config: Any) -> Path:
    """A classifier of the reviews in a folder, with the record that fine-tuning would leave."""
    tokenizer = train_tokenizer([row["text"] for row in make_reviews(300, seed=0)], vocab_size=400)
    save_tokenizer(tokenizer, folder)
    names = sorted(WORDS)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer), "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)}, "classifier_pooling": "mean",
    }  # fmt: skip
    torch.manual_seed(0)
    model = GreffeForSequenceClassification(tiny_config("modern", **{**options, **config}))
    if steps:
        train(model, tokenizer, make_reviews(400, seed=1), names, steps)
    model.save_pretrained(folder)
    record = {"stage": "finetune", "arguments": {"max_length": MAX_LENGTH, "truncation": TRUNCATION}}
    (folder / "greffe.json").write_text(json.dumps(record))
    return folder


def save_classifier_with_path(folder: Path, **config: Any) -> Path:
    """The same with a path of n-grams, to all of which it gives a weight at random; nothing else was trained."""
    save_classifier(folder, steps=0, **{"ngram_order": 2, "ngram_buckets": 2**12, **config})
    model = GreffeForSequenceClassification.from_pretrained(folder)
    assert model.ngrams is not None
    model.ngrams.learn_spelling(spell_tokens(load_tokenizer(folder)))
    torch.manual_seed(0)
    torch.nn.init.normal_(model.ngrams.weight)
    torch.nn.init.uniform_(model.ngrams.rarity, 1, 5)
    model.save_pretrained(folder)
    return folder


def train(model: Any, tokenizer: Any, rows: list[dict[str, Any]], names: list[str], steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    draw = random.Random(0)
    for _ in range(steps):
        batch = draw.sample(rows, 16)
        inputs = tokenizer([row["text"] for row in batch], padding=True, return_tensors="pt")
        labels = torch.tensor([names.index(row["label"]) for row in batch])
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
