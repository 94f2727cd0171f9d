"""The n-gram path: fitted as scikit-learn fits its like, and weighed so that it helps or is silent."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.modeling.ngrams import NgramPath
from greffe.tokenization import load_tokenizer, train_tokenizer
from greffe.tokenization.spelling import spell_tokens
from greffe.train.cli import main
from greffe.train.finetune import finetune
from greffe.train.ngram_fit import STRENGTHS, fill_bags, find_rarity, fit_weights, graft_ngrams, weigh
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from tiny_models import tiny_config
from tiny_reviews import make_base, make_reviews, write_rows
from tiny_stages import finetune_options

SINGLE = "single_label_classification"
WORDS = ["excellent", "été", "à", "œuvre", "l", "histoire", "décevant", "10", "naïf", "ça", "français", "1984e"]
SIGNS = [" ", " ", " ", ", ", "'", "… ", " « ", "/", "-", "\n", "_"]
Rows = list[dict[str, Any]]
SPELLING = [(bytes([number]), True) for number in range(97)]  # each token a word


def make_rows(number: int, seed: int = 0) -> Rows:
    """Texts of ids, two of which in a row, 7 and 8, make the label likely."""
    draw = random.Random(seed)
    rows = []
    for _ in range(number):
        ids, label = [draw.randint(3, 60) for _ in range(draw.randint(1, 40))], draw.randint(0, 1)
        if draw.random() < 0.8:
            ids[len(ids) // 2 : len(ids) // 2] = [7, 8] if label else [8, 7]
        rows.append({"input_ids": ids, "labels": label})
    return rows


def fitted_path(rows: Rows, order: int) -> NgramPath:
    path = NgramPath(tiny_config(ngram_order=order, ngram_buckets=2**22, num_labels=2))  # hardly any share a bucket
    path.rarity.copy_(find_rarity(fill_bags(path, rows), path.buckets))
    return path


@pytest.mark.parametrize("order", [1, 2, 3])
def test_weights_are_those_of_scikit_learn(order: int) -> None:
    train, held_out = make_rows(200), make_rows(80, seed=1)
    path = fitted_path(train, order)
    as_words = {name: [list(map(str, row["input_ids"])) for row in part] for name, part in
                (("train", train), ("held_out", held_out))}  # fmt: skip
    vectoriser = TfidfVectorizer(analyzer=lambda words: runs(words, order), sublinear_tf=True, min_df=2)
    features = vectoriser.fit_transform(as_words["train"])
    targets = [row["labels"] for row in train]
    bags = fill_bags(path, held_out)
    for strength, weight, bias in fit_weights(fill_bags(path, train), path.weight.shape, torch.tensor(targets), SINGLE):
        # Two labels have a vector each here, one in scikit-learn: half of its square, twice over.
        reference = LogisticRegression(C=2 * strength, max_iter=5000, tol=1e-8).fit(features, targets)
        expected = reference.decision_function(vectoriser.transform(as_words["held_out"]))
        logits = bags.logits(weight) + bias
        found = (logits[:, 1] - logits[:, 0]).numpy()
        # But for the few texts with an n-gram that shares its bucket with another one.
        assert np.isclose(found, expected, atol=0.005 * np.abs(expected).max()).mean() > 0.9


def test_words_are_those_of_scikit_learn() -> None:
    """However a tokenizer cuts them, in whatever case, with whatever sign between them."""
    train, held_out = make_sentences(200), make_sentences(80, seed=1)
    tokenizer = train_tokenizer(train, vocab_size=360)
    assert max(len(tokenizer(word)["input_ids"]) for word in WORDS) > 2
    path = NgramPath(tiny_config(vocab_size=len(tokenizer), ngram_order=2, ngram_buckets=2**22, num_labels=2))
    path.learn_spelling(spell_tokens(tokenizer))
    rows = {
        name: [{"input_ids": ids} for ids in tokenizer(texts)["input_ids"]]
        for name, texts in (("train", train), ("held_out", held_out))
    }
    path.rarity.copy_(find_rarity(fill_bags(path, rows["train"]), path.buckets))
    vectoriser = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"[^\W_]+", sublinear_tf=True, min_df=2).fit(train)
    assert (path.rarity > 0).sum() == len(vectoriser.vocabulary_)  # no two share a bucket
    torch.nn.init.normal_(path.weight)
    weights = np.zeros((len(vectoriser.vocabulary_), 2), dtype=np.float32)
    for ngram, column in vectoriser.vocabulary_.items():
        buckets, counts = path.count(torch.tensor([tokenizer(ngram.upper())["input_ids"]]))
        weights[column] = path.weight[buckets[counts > 0][-1]].detach()  # the longest is the last
    expected = vectoriser.transform(held_out) @ weights
    assert len(set(map(tuple, expected.round(4).tolist()))) > 60
    np.testing.assert_allclose(fill_bags(path, rows["held_out"]).logits(path.weight).detach(), expected, atol=1e-5)


def make_sentences(number: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    cases = [str.lower, str.upper, str.capitalize]
    return [
        "".join(draw.choice(cases)(draw.choice(WORDS)) + draw.choice(SIGNS) for _ in range(draw.randint(1, 25)))
        for _ in range(number)
    ]


def runs(words: list[str], order: int) -> list[str]:
    return [
        " ".join(words[start : start + length])
        for length in range(1, order + 1)
        for start in range(len(words) - length + 1)
    ]


def test_the_classifier_says_what_was_weighed() -> None:
    torch.manual_seed(0)
    model = GreffeForSequenceClassification(tiny_config(num_labels=2, problem_type=SINGLE)).eval()
    train, held_out = make_rows(300), make_rows(120, seed=1)
    ids = [torch.tensor([row["input_ids"]]) for row in held_out]
    targets = torch.tensor([row["labels"] for row in held_out])
    with torch.no_grad():
        trunk = torch.cat([model(input_ids=row).logits for row in ids])
        mixture = graft_ngrams(model, 2, SPELLING, train, held_out, trunk)
        logits = torch.cat([model(input_ids=row).logits for row in ids])
    assert mixture.strength in STRENGTHS
    assert ((logits.argmax(1) == targets).float().mean()) > 0.8 > ((trunk.argmax(1) == targets).float().mean())
    path = fill_bags(model.ngrams, held_out).logits(model.ngrams.weight).detach()
    rest = logits - path - mixture.trunk * trunk
    torch.testing.assert_close(rest, rest[:1].expand_as(rest), atol=1e-5, rtol=0)  # the same bias for each text


def test_what_does_not_help_is_silent() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(0, 2, (400,), generator=generator)
    signs = 2.0 * targets - 1
    right = torch.stack([-signs, signs], 1) + torch.randn(400, 2, generator=generator)
    against = torch.stack([signs, -signs], 1) + torch.randn(400, 2, generator=generator)
    loss, (good, wrong) = weigh([right, against], targets, SINGLE)
    assert good > 0.5
    assert wrong == 0
    alone, _ = weigh([right], targets, SINGLE)
    assert loss == pytest.approx(alone, abs=1e-3)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_other_tasks(problem: str) -> None:
    rows = make_rows(200)
    several = problem != "regression"
    for row in rows:
        row["labels"] = [float(row["labels"]), 1.0] if several else float(row["labels"])
    torch.manual_seed(0)
    model = GreffeForSequenceClassification(tiny_config(num_labels=2 if several else 1, problem_type=problem)).eval()
    trunk = torch.zeros(50, 2 if several else 1)
    graft_ngrams(model, 2, SPELLING, rows[:150], rows[150:], trunk)
    path = fill_bags(model.ngrams, rows[150:]).logits(model.ngrams.weight)[:, 0].detach().numpy()
    labels = [row["labels"][0] if several else row["labels"] for row in rows[150:]]
    assert np.corrcoef(path, labels)[0, 1] > 0.5


def test_the_stage_leaves_a_model_with_its_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = make_base(tmp_path / "base")
    reviews = write_rows(tmp_path / "reviews.jsonl", make_reviews(240, seed=1))
    test = make_reviews(100, seed=2)
    arguments = finetune_options(
        base, reviews, tmp_path / "run", test=str(write_rows(tmp_path / "test.jsonl", test)), ngram_order=2,
        num_train_epochs=1, learning_rate=1e-5, truncation="head",
    )  # fmt: skip
    record = finetune(arguments)
    assert record["metrics"]["test"]["accuracy"] > 0.9  # a trunk at this rate knows nothing
    assert "n-grams fitted" in capfd.readouterr().err
    model = GreffeForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    tokenizer = load_tokenizer(tmp_path / "run")
    texts = [row["text"] for row in test]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=arguments.max_length, return_tensors="pt")
    with torch.no_grad():
        found = model(**batch).logits.argmax(1)
    right = [model.config.id2label[int(label)] == row["label"] for label, row in zip(found, test, strict=True)]
    assert np.mean(right) == pytest.approx(record["metrics"]["test"]["accuracy"])


def test_a_frozen_trunk_has_no_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = make_base(tmp_path / "base")
    reviews = write_rows(tmp_path / "reviews.jsonl", make_reviews(40, seed=1))
    flags = ["--model", base, "--train", reviews, "--output", tmp_path / "run", "--freeze", "trunk"]
    assert main(["finetune", *map(str, flags), "--ngram_order", "2"]) != 0
    assert "one of --freeze trunk and --ngram_order" in capsys.readouterr().err
