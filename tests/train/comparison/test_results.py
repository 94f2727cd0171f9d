"""Results on disk: whole, finite, and as pandas would like them."""

import io
import json

import pandas as pd
import pytest
from comparison_results import make_results
from greffe.train.comparison.results import format_csv, format_json, largest_budget


def test_json_keeps_all_but_what_is_as_large_as_the_test_set():
    results = make_results(seeds=2)
    read = json.loads(format_json(results))
    expected = {**results, "test": {"labels": results["test"]["labels"]}}
    expected["runs"] = [{name: run[name] for name in run if name != "predictions"} for run in results["runs"]]
    assert read == expected
    assert "predictions" in results["runs"][0]  # those of the caller are whole


def test_json_of_a_run_that_diverged():
    results = make_results(seeds=1)
    results["runs"][2]["test"]["loss"], results["runs"][2]["epochs"][0]["loss"] = float("nan"), float("inf")
    run = json.loads(format_json(results), parse_constant=pytest.fail)["runs"][2]
    assert run["test"]["loss"] is run["epochs"][0]["loss"] is None


def test_csv_has_the_runs_and_the_curves():
    results = make_results(seeds=2)
    frame = pd.read_csv(io.StringIO(format_csv(results)), dtype={"budget": str})
    runs, curves = frame[frame.kept], frame[~frame.rejected].dropna(subset="epoch")
    assert len(runs) == len(results["runs"])
    assert curves.validation_accuracy.tolist() == [
        epoch["accuracy"] for run in results["runs"] for epoch in run["epochs"]
    ]
    assert frame[~frame.kept].test_accuracy.isna().all()
    for (_, row), run in zip(runs.iterrows(), results["runs"], strict=True):
        assert (row.method, row.budget, row.train_rows, row.seed) == (
            run["method"], run["budget"], run["train_rows"], run["seed"]
        )  # fmt: skip
        assert row.test_accuracy == run["test"]["accuracy"]
        assert row.validation_accuracy == run["validation"]["accuracy"]
        assert row.epoch == run["best_epoch"] or (pd.isna(row.epoch) and run["best_epoch"] is None)
        assert {name: row[f"chosen_{name}"] for name in run["chosen"]} == run["chosen"]


def test_csv_has_the_learning_rates_that_were_not_chosen():
    results = make_results(["pretrained"], ["all"], 1)
    run = results["runs"][0]
    run["rejected"].append({"learning_rate": 0.1, "epochs": [], "diverged": "expected a finite loss"})
    frame = pd.read_csv(io.StringIO(format_csv(results)))
    tried = frame[frame.rejected]
    assert tried.learning_rate.tolist() == [0.0003] * 8 + [0.1]
    assert tried.validation_accuracy.tolist()[:-1] == [epoch["accuracy"] for epoch in run["rejected"][0]["epochs"]]
    assert tried.iloc[-1][["epoch", "validation_accuracy"]].isna().all()
    assert not tried.kept.any()
    assert frame[~frame.rejected].learning_rate.tolist() == [0.001] * 8


def test_csv_of_a_run_whose_kept_epoch_is_not_known():
    results = make_results(["scratch"], ["all"], 1)
    results["runs"][0] |= {"best_epoch": None, "rejected": []}
    frame = pd.read_csv(io.StringIO(format_csv(results)))
    assert frame.kept.tolist() == [False] * 8 + [True]
    assert pd.isna(frame.epoch.iloc[-1])
    assert frame.test_accuracy.iloc[-1] == results["runs"][0]["test"]["accuracy"]


def test_largest_budget():
    results = make_results(seeds=1)
    results["runs"] = [run for run in results["runs"] if (run["method"], run["budget"]) != ("frozen", "all")]
    assert largest_budget(results, "frozen") == "400"
    assert largest_budget(results, "scratch") == "all"
    assert largest_budget(results, "unknown") is None
