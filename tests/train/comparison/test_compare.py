"""A whole comparison with tiny models: what it runs, what it reuses, what it leaves, and where it looks at the test."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from greffe.train.arguments import CompareArguments, FinetuneArguments
from greffe.train.cli import main
from greffe.train.comparison.compare import compare
from greffe.train.finetune import finetune
from processes import flags_of
from tiny_reviews import make_base, make_reviews, write_rows


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model, and three labelled files: three texts of train and one of validation stand in test too."""
    folder = tmp_path_factory.mktemp("data")
    test = make_reviews(80, seed=2)
    train = [*make_reviews(120, seed=1), *test[:3]]
    validation = [*make_reviews(40, seed=3), test[5]]
    parts = {"train": train, "validation": validation, "test": test}
    paths = {name: str(write_rows(folder / f"{name}.jsonl", rows)) for name, rows in parts.items()}
    return {**paths, "model": str(make_base(folder / "model"))}


def options(files: dict[str, str], output: Path, **changes: Any) -> CompareArguments:
    values: dict[str, Any] = {
        **files, "output": str(output), "labels": ["20", "all"], "seeds": 2, "num_train_epochs": 2.0, "max_length": 32,
        "per_device_train_batch_size": 8, "learning_rate": [1e-2],
    }  # fmt: skip
    return CompareArguments(**{**values, **changes})


@pytest.fixture(scope="module")
def finished(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("finished") / "comparison"
    return folder, compare(options(files, folder))


def test_every_run_is_there(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, results = finished
    found = {(run["method"], run["budget"], run["seed"]) for run in results["runs"]}
    methods = ["majority", "tfidf", "scratch", "frozen", "pretrained"]
    assert found == {(method, budget, seed) for method in methods for budget in ("20", "all") for seed in (0, 1)}
    for run in results["runs"]:
        assert run["train_rows"] == (20 if run["budget"] == "20" else 120)
        assert [entry["epoch"] for entry in run["epochs"]] == ([1, 2] if run["best_epoch"] else [])
        right = np.argmax(run["predictions"], axis=1) == results["test"]["labels"]
        assert run["test"]["accuracy"] == pytest.approx(right.mean())
        if run["epochs"]:
            best = max(run["epochs"], key=lambda entry: entry["accuracy"])
            assert (run["best_epoch"], run["validation"]["accuracy"]) == (best["epoch"], best["accuracy"])
    for name in ("results.json", "results.csv", "report.md", "report.html"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "figures").glob("*.png"))
    assert not (folder / ".work").exists()


def test_what_stands_in_test_is_removed_from_the_rest(finished: tuple[Path, dict[str, Any]]) -> None:
    data = finished[1]["data"]
    assert data["overlap"]["removed"] == {"train": 3, "validation": 1}
    assert (data["train"]["rows"], data["train"]["used"]) == (123, 120)
    assert (data["test"]["rows"], data["test"]["used"]) == (80, 80)


def test_overlap_is_kept_when_asked(files: dict[str, str], tmp_path: Path) -> None:
    results = compare(options(files, tmp_path / "out", keep_overlap=True, methods=["majority"], seeds=1))
    assert results["data"]["overlap"]["removed"] == {"train": 0, "validation": 0}
    assert results["data"]["train"]["used"] == 123


@pytest.mark.parametrize(
    ("method", "changes"),
    [("scratch", {"from_scratch": True}), ("frozen", {"freeze": "trunk", "learning_rate": 5e-3}), ("pretrained", {})],
)
def test_a_run_is_what_the_stage_gives(
    files: dict[str, str], finished: tuple[Path, dict[str, Any]], tmp_path: Path, method: str, changes: dict[str, Any]
) -> None:
    record = finetune(
        FinetuneArguments(
            **{**files, "output": str(tmp_path / "run"), "num_train_epochs": 2.0, "max_length": 32, "deduplicate": True,
               "per_device_train_batch_size": 8, "learning_rate": 1e-2, "seed": 1, **changes}
        )
    )  # fmt: skip
    run = next(run for run in finished[1]["runs"] if (run["method"], run["budget"], run["seed"]) == (method, "all", 1))
    assert run["test"]["confusion_matrix"] == record["metrics"]["test"]["confusion_matrix"]
    assert run["test"]["loss"] == pytest.approx(record["metrics"]["test"]["loss"], rel=1e-4)


def test_validation_chooses_the_learning_rate(files: dict[str, str], tmp_path: Path) -> None:
    changes = {"labels": ["all"], "seeds": 1, "methods": ["pretrained"], "num_train_epochs": 4.0}
    chosen = compare(options(files, tmp_path / "both", learning_rate=[1e-7, 1e-2], **changes))["runs"][0]
    single = compare(options(files, tmp_path / "one", learning_rate=[1e-2], **changes))["runs"][0]
    assert chosen["chosen"] == {"learning_rate": 1e-2}
    assert chosen["epochs"] == single["epochs"]
    assert chosen["predictions"] == single["predictions"]


def test_finished_runs_are_not_repeated_and_changes_are_noticed(
    files: dict[str, str], finished: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", finished[0], folder], check=True)
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    again = compare(options(files, folder))
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == before
    assert again["runs"] == finished[1]["runs"]
    assert "20 of 20 runs are finished" in capsys.readouterr().err

    compare(options(files, folder, methods=["majority", "tfidf"], seeds=3))  # a seed more: the others stay
    assert "8 of 12 runs are finished" in capsys.readouterr().err

    (folder / "runs" / "tfidf-20-seed0.json").write_text("{")  # cut short by something else
    compare(options(files, folder, methods=["majority", "tfidf"]))
    assert "7 of 8 runs are finished" in capsys.readouterr().err

    changed = write_rows(tmp_path / "test.jsonl", make_reviews(80, seed=2)[:70])
    compare(options({**files, "test": str(changed)}, folder, methods=["majority"]))
    assert "4 runs of other data, settings or versions are repeated" in capsys.readouterr().err
    compare(options({**files, "test": str(changed)}, folder, methods=["majority"], max_length=16))
    assert "4 runs of other data, settings or versions are repeated" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_comparison_is_continued(files: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    arguments = options(
        files, tmp_path / "out", labels=["20"], methods=["majority", "pretrained"], num_train_epochs=8.0
    )
    command = [sys.executable, "-m", "greffe.train.cli", "compare", *flags_of(arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    end = time.monotonic() + 120
    while len(list((tmp_path / "out" / "runs").glob("*.json"))) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*.json")}
    assert 2 <= len(done) < 4, errors
    assert not (tmp_path / "out" / "results.json").exists()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "the same command continues" in errors or "interrupted" in errors
    results = compare(arguments)
    assert len(results["runs"]) == 4
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*.json")}
    assert {name: again[name] for name in done} == done


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["1000"]}, "expected --labels"),
        ({"methods": ["magic"]}, "expected --methods"),
        ({"seeds": 0}, "expected --seeds"),
        ({"test": "missing.jsonl"}, "missing.jsonl"),
        ({"model": "nowhere"}, "expected a model folder"),
        ({"task": "regression"}, "expected"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    assert main(["compare", *flags_of(options(files, tmp_path / "out", **changes))]) == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert errors[-1].startswith("greffe: error: ")
    assert message in errors[-1]
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    assert main(["compare", *flags_of(options(files, tmp_path))]) == 1
    assert "letters.txt" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["letters.txt"]


def test_the_command_ends_with_the_verdict(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = options(files, tmp_path / "out", labels=["20"], seeds=1, num_train_epochs=1.0)
    assert main(["compare", *flags_of(arguments)]) == 0
    printed = capsys.readouterr().out
    assert "report.html" in printed.splitlines()[-1]
    assert "TF-IDF" in printed
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["settings"]["num_train_epochs"] == 1.0
