"""Labelled texts of invented words, and a tiny language model to graft onto."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from greffe.modeling import GreffeForCausalLM
from greffe.tokenization import save_tokenizer, train_tokenizer
from invented_text import make_documents
from tiny_models import tiny_config


def make_base(folder: Path) -> Path:
    """A language model that has learned nothing, with its tokenizer: enough to graft onto."""
    tokenizer = train_tokenizer(make_documents(300), vocab_size=400)
    save_tokenizer(tokenizer, folder)
    torch.manual_seed(0)
    GreffeForCausalLM(tiny_config("modern", vocab_size=len(tokenizer), num_hidden_layers=2)).save_pretrained(folder)
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return path


def label_of(text: str) -> str:
    return "négatif" if "non" in text.split() else "positif"


def make_reviews(number: int, seed: int) -> list[dict[str, Any]]:
    """A word decides: "oui" in the texts of one label, "non" in those of the other."""
    draw = random.Random(seed)
    rows = []
    for document in make_documents(number, seed=seed):
        words = document.split()
        words.insert(draw.randint(0, len(words)), draw.choice(["oui", "non"]))
        rows.append({"text": " ".join(words), "label": label_of(" ".join(words))})
    return rows
