"""A whole comparison with tiny models: what it runs, what it reuses, what it leaves, and where it looks at the test."""

import hashlib
import json
import os
import shutil
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
from greffe.train.comparison.compare import compare, fingerprint, train_once
from greffe.train.comparison.verdict import format_verdict
from greffe.train.finetune import finetune
from greffe.train.finetune_trainer import FinetuneTrainer
from processes import flags_of
from safetensors.torch import load_file, save_file
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
        "per_device_train_batch_size": 8, "learning_rate": [1e-2], "frozen_learning_rate": [5e-3],
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
    assert "3 of train stand in test and 1 of validation stand in test" in format_verdict(results)
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
    assert [trial["learning_rate"] for trial in chosen["rejected"]] == [1e-7]
    assert [entry["epoch"] for entry in chosen["rejected"][0]["epochs"]] == [1, 2, 3, 4]
    assert single["rejected"] == []
    assert chosen["epochs"] == single["epochs"]
    assert chosen["predictions"] == single["predictions"]


def test_no_choice_is_made_on_test(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the labels of the test set turned round, all but the scores is the same; a run looks at it once."""
    looks: list[int] = []
    loop = FinetuneTrainer.evaluation_loop

    def count_rows(trainer: FinetuneTrainer, dataloader: Any, *others: Any, **options: Any) -> Any:
        looks.append(len(dataloader.dataset))
        return loop(trainer, dataloader, *others, **options)

    monkeypatch.setattr(FinetuneTrainer, "evaluation_loop", count_rows)
    rows = [json.loads(line) for line in Path(files["test"]).read_text(encoding="utf-8").splitlines()]
    turned = [{**row, "label": "positif" if row["label"] == "négatif" else "négatif"} for row in rows]
    other = {**files, "test": str(write_rows(tmp_path / "test.jsonl", turned))}
    changes = {"labels": ["20"], "seeds": 1, "learning_rate": [1e-3, 1e-2], "frozen_learning_rate": [1e-3, 2e-2]}
    first, second = (
        compare(options(paths, tmp_path / name, **changes))["runs"] for name, paths in (("a", files), ("b", other))
    )
    assert looks.count(80) == 2 * 3  # scratch, frozen and pre-trained, each with two rates
    assert looks.count(40) == 2 * 3 * 2 * 2  # two rates of two epochs
    assert len(looks) == 2 * 3 + 2 * 3 * 2 * 2
    scores = {"test", "seconds"}
    for one, two in zip(first, second, strict=True):
        assert {name: one[name] for name in one.keys() - scores} == {name: two[name] for name in two.keys() - scores}
        assert one["test"]["accuracy"] == pytest.approx(1 - two["test"]["accuracy"])


def test_a_learning_rate_that_diverges_is_left_out(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverge(experiment: Any, run: Any, rows: Any, rate: float, *others: Any) -> Any:
        if rate > 1:
            raise FloatingPointError("expected a finite loss, found nan at step 3")
        return train_once(experiment, run, rows, rate, *others)

    monkeypatch.setattr("greffe.train.comparison.compare.train_once", diverge)
    changes = {"labels": ["20"], "seeds": 1, "methods": ["pretrained"]}
    run = compare(options(files, tmp_path / "one", learning_rate=[10.0, 1e-2], **changes))["runs"][0]
    assert run["chosen"] == {"learning_rate": 1e-2}
    assert run["rejected"] == [
        {"learning_rate": 10.0, "epochs": [], "diverged": "expected a finite loss, found nan at step 3"}
    ]
    assert "learning rate 10 is left out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"not finite with 10, 20; pass a lower --learning_rate"):
        compare(options(files, tmp_path / "none", learning_rate=[10.0, 20.0], **changes))


def test_a_part_of_an_epoch_is_one_more(files: dict[str, str], tmp_path: Path) -> None:
    changes = {"labels": ["20"], "seeds": 1, "methods": ["frozen"], "num_train_epochs": 2.5}
    run = compare(options(files, tmp_path / "out", **changes))["runs"][0]
    assert [entry["epoch"] for entry in run["epochs"]] == [1, 2, 3]


def test_the_fingerprint_of_pieces_covers_their_labels(tmp_path: Path) -> None:
    pieces, labels = tmp_path / "train.review.spm", tmp_path / "train.label"
    pieces.write_text("▁bon ▁livre\n", encoding="utf-8")
    labels.write_text("1\n")
    before = fingerprint(pieces)
    assert before == hashlib.sha256(pieces.read_bytes() + labels.read_bytes()).hexdigest()
    labels.write_text("0\n")
    assert fingerprint(pieces) != before


def change_config(files: dict[str, str]) -> None:
    path = Path(files["model"]) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hidden_dropout": 0.25}))


def change_weights(files: dict[str, str]) -> None:
    path = Path(files["model"]) / "model.safetensors"
    weights = load_file(path)
    name = sorted(weights)[0]
    save_file({**weights, name: weights[name] + 1e-3}, path, metadata={"format": "pt"})


def change_train(files: dict[str, str]) -> None:
    path = Path(files["train"])
    first, *others = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    write_rows(path, [{**first, "label": "positif" if first["label"] == "négatif" else "négatif"}, *others])


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (change_config, {}),
        (change_weights, {}),
        (change_train, {}),
        (lambda files: None, {"weight_decay": 0.5}),
        (lambda files: None, {"bf16": "on"}),
    ],
    ids=["config", "weights", "train", "setting", "bf16"],
)
def test_nothing_stale_is_reused(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    change: Any, changes: dict[str, Any],
) -> None:  # fmt: skip
    monkeypatch.setattr("greffe.train.comparison.compare.native_bf16", lambda: False)
    own = {name: str(tmp_path / Path(path).name) for name, path in files.items()}
    for name, path in files.items():
        (shutil.copytree if name == "model" else shutil.copy)(path, own[name])
    few = {"labels": ["all"], "seeds": 1, "methods": ["majority", "tfidf"]}
    compare(options(own, tmp_path / "out", **few))
    compare(options(own, tmp_path / "out", bf16="off", **few))  # which auto is here
    assert "2 of 2 runs are finished" in capsys.readouterr().err
    change(own)
    compare(options(own, tmp_path / "out", **{**few, **changes}))
    assert "2 runs of other data, settings or versions are repeated" in capsys.readouterr().err


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


def test_a_report_that_was_cut_short_is_written_anew(
    files: dict[str, str], finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    (folder / "report.html").unlink()
    (folder / ".report.html.partial").write_text("<!doctype")
    assert compare(options(files, folder))["runs"] == finished[1]["runs"]
    assert (folder / "report.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert not (folder / ".report.html.partial").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_comparison_is_continued(files: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    arguments = options(
        files, tmp_path / "out", labels=["20"], methods=["majority", "pretrained"], num_train_epochs=20.0
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
        assert "the same command continues" in errors
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
        ({"num_train_epochs": 0.0}, "expected --num_train_epochs above 0, found 0.0"),
        ({"per_device_train_batch_size": 0}, "expected --per_device_train_batch_size above 0"),
        ({"layerwise_lr_decay": 2.0}, "expected --layerwise_lr_decay"),
        ({"learning_rate": [1e-3, 0.0]}, "expected --learning_rate above 0"),
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


def test_n_grams_for_all_but_the_frozen_trunk(files: dict[str, str], tmp_path: Path) -> None:
    """At this rate no network learns anything: what is known is known by the path."""
    methods = ["scratch", "frozen", "pretrained"]
    changes = {"labels": ["all"], "seeds": 1, "num_train_epochs": 1.0, "learning_rate": [1e-6]}
    runs = compare(options(files, tmp_path / "comparison", methods=methods, ngram_order=2, **changes))["runs"]
    for run in runs:
        knows = run["method"] != "frozen"
        assert (run["test"]["accuracy"] > 0.85, run["validation"]["accuracy"] > 0.85) == (knows, knows), run["method"]
