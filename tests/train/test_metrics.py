"""Scores are those of scikit-learn and scipy, computed without a network and without a file."""

from __future__ import annotations

import json

import evaluate
import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.train.metrics import Accuracy, MacroF1, make_compute_metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats
from tiny_models import random_ids, tiny_config
from transformers import EvalPrediction, Trainer, TrainingArguments

NAMES = {0: "négatif", 1: "neutre", 2: "positif", 3: "jamais vu"}
# Quarters: ties between classes and probabilities of one half happen, and no rounding decides either.
SCORE = st.integers(-40, 40).map(lambda number: number / 4)
compute_single = make_compute_metrics("single_label", NAMES)
compute_multi = make_compute_metrics("multi_label", NAMES)
compute_regression = make_compute_metrics("regression", {0: "note"})


def logits_of(rows: int, labels: int):
    return arrays.arrays(np.float32, (rows, labels), elements=SCORE)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_single_label(data):
    rows = data.draw(st.integers(1, 30))
    logits = data.draw(logits_of(rows, 4))
    true = data.draw(arrays.arrays(np.int64, rows, elements=st.integers(0, 3)))
    scores = compute_single(EvalPrediction(logits, true))
    found = logits.argmax(axis=1)
    precision, recall, f1, support = reference.precision_recall_fscore_support(
        true, found, labels=range(4), zero_division=0
    )
    assert scores["accuracy"] == pytest.approx(reference.accuracy_score(true, found))
    assert scores["macro_f1"] == pytest.approx(reference.f1_score(true, found, average="macro"))
    assert scores["confusion_matrix"] == reference.confusion_matrix(true, found, labels=range(4)).tolist()
    assert list(scores["per_class"]) == list(NAMES.values())
    for number, name in NAMES.items():
        expected = {"precision": precision, "recall": recall, "f1": f1, "rows": support}
        assert scores["per_class"][name] == pytest.approx({key: value[number] for key, value in expected.items()})


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_multi_label(data):
    rows = data.draw(st.integers(1, 30))
    logits = data.draw(logits_of(rows, 4))
    true = data.draw(arrays.arrays(np.float32, (rows, 4), elements=st.sampled_from([0.0, 1.0])))
    scores = compute_multi(EvalPrediction(logits, true))
    found = torch.sigmoid(torch.tensor(logits, dtype=torch.float64)).numpy() > 0.5
    # scikit-learn averages over labels only if told what to say where nothing is there: 0.
    for average in ("micro", "macro"):
        expected = reference.f1_score(true, found, average=average, zero_division=0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)
    assert scores["subset_accuracy"] == pytest.approx(reference.accuracy_score(true, found))
    precision, recall, f1, support = reference.precision_recall_fscore_support(true, found, zero_division=0)
    for number, name in NAMES.items():
        expected = {"precision": precision, "recall": recall, "f1": f1, "rows": support}
        assert scores["per_class"][name] == pytest.approx({key: value[number] for key, value in expected.items()})


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_regression(data):
    rows = data.draw(st.integers(2, 30))
    # Halves: ties in the ranks, and no sums whose rounding would decide a correlation.
    halves = st.integers(-40, 40).map(lambda number: number / 2)
    predictions = data.draw(arrays.arrays(np.float32, (rows, 1), elements=halves))
    true = data.draw(arrays.arrays(np.float32, rows, elements=halves))
    scores = compute_regression(EvalPrediction(predictions, true))
    found = predictions[:, 0].astype(np.float64)
    assert scores["mse"] == pytest.approx(reference.mean_squared_error(true, found))
    assert scores["mae"] == pytest.approx(reference.mean_absolute_error(true, found))
    if len(set(found)) == 1 or len(set(true)) == 1:
        assert scores["pearson"] == scores["spearman"] == 0
    else:
        assert scores["pearson"] == pytest.approx(stats.pearsonr(true.astype(np.float64), found).statistic, abs=1e-9)
        assert scores["spearman"] == pytest.approx(stats.spearmanr(true, found).statistic, abs=1e-9)


@pytest.mark.parametrize(
    ("compute", "true"),
    [(compute_single, [0, 3]), (compute_multi, [[0.0, 1, 1, 0]] * 2), (compute_regression, [0.5, 1.5])],
)
def test_scores_are_plain_values_the_same_each_time(compute, true):
    outputs = 1 if compute is compute_regression else 4
    prediction = EvalPrediction(np.eye(4, dtype=np.float32)[:2, :outputs] + 0.25, np.array(true))
    first = compute(prediction)
    assert json.loads(json.dumps(first)) == first == compute(prediction)


def test_without_details_only_numbers():
    prediction = EvalPrediction(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 2]))
    short = make_compute_metrics("single_label", NAMES, detailed=False)(prediction)
    assert set(short) == {"accuracy", "macro_f1"}
    assert all(type(value) is float for value in short.values())
    assert short["accuracy"] == compute_single(prediction)["accuracy"]


def test_a_model_that_returns_more_than_logits():
    logits = np.eye(4, dtype=np.float32)
    more = EvalPrediction((logits, np.zeros((2, 4, 8))), np.arange(4))
    assert compute_single(more) == compute_single(EvalPrediction(logits, np.arange(4)))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([[0, 0, 0, 0], [0, np.nan, 0, 0]], "found NaN or infinity in 1 of 2 rows, row 1 the first; lower"),
        ([[0, 0, 0], [0, 0, 0]], r"expected logits for 4 labels a row, found an array of shape \(2, 3\)"),
        (np.zeros((0, 4)), "expected at least one prediction to score, found none"),
    ],
)
def test_refused(logits, message):
    logits = np.asarray(logits, np.float32)
    with pytest.raises(ValueError, match=message):
        compute_single(EvalPrediction(logits, np.zeros(len(logits), int)))
    assert compute_single(EvalPrediction(np.eye(4), np.arange(4)))["accuracy"] == 1  # nothing stays behind


def test_unknown_task():
    with pytest.raises(ValueError, match=r"expected task among \['single_label', .*\], found 'ranking'"):
        make_compute_metrics("ranking", NAMES)


def test_each_is_a_metric_of_the_library_and_takes_batches():
    both = evaluate.combine([Accuracy(), MacroF1()])
    both.add_batch(predictions=[0, 1], references=[0, 0])
    both.add_batch(predictions=[1], references=[1])
    assert both.compute() == {"accuracy": 2 / 3, "macro_f1": pytest.approx(2 / 3)}
    assert "share of rows" in Accuracy().description


def test_random_numbers_of_the_training_are_not_touched():
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), np.random.get_state()[2]
    make_compute_metrics("single_label", NAMES)(EvalPrediction(np.eye(4), np.arange(4)))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
    assert before[2] == np.random.get_state()[2]


def test_no_file_is_left_and_metrics_beside_each_other_do_not_meet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "cache"))
    first, second = Accuracy(), Accuracy()
    first.add_batch(predictions=[0, 1], references=[0, 1])
    second.add_batch(predictions=[0, 1], references=[1, 0])
    assert list(tmp_path.rglob("*")) == []  # nor while they wait
    assert (first.compute(), second.compute()) == ({"accuracy": 1.0}, {"accuracy": 0.0})
    for compute, labels in ((compute_single, np.arange(4)), (compute_multi, np.eye(4))):
        compute(EvalPrediction(np.eye(4), labels))
    assert list(tmp_path.rglob("*")) == []


def test_trainer_reports_them(tmp_path):
    config = tiny_config(num_labels=4, id2label=NAMES, label2id={name: number for number, name in NAMES.items()})
    torch.manual_seed(0)
    model = GreffeForSequenceClassification(config).eval()
    rows = [{"input_ids": ids, "labels": number % 3} for number, ids in enumerate(random_ids(10, 6))]
    arguments = TrainingArguments(str(tmp_path), per_device_eval_batch_size=4, use_cpu=True, disable_tqdm=True)
    trainer = Trainer(model, arguments, eval_dataset=rows, compute_metrics=compute_single)
    scores = trainer.evaluate()
    with torch.no_grad():
        found = model(torch.stack([row["input_ids"] for row in rows])).logits.argmax(-1).tolist()
    assert scores["eval_accuracy"] == reference.accuracy_score([row["labels"] for row in rows], found)
    assert np.sum(scores["eval_confusion_matrix"]) == 10
    assert scores["eval_per_class"]["neutre"]["rows"] == 3
