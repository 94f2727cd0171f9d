"""The results of a comparison: finding runs in them, and keeping them as JSON and CSV.

`results.json` has everything but what is as large as the test set: the probabilities of each run and the test texts
stay in the files of the runs. What was computed from them is there, under `statistics`.

`results.csv` has a row for every run and epoch, for pandas and its friends:

    method, budget, train_rows, seed    the run
    learning_rate                       of the epochs in this row; empty for methods that have none
    rejected                            True where validation chose another learning rate for the run
    epoch                               1, 2, …; empty for methods that have no epochs, and for a rate that diverged
    validation_accuracy, validation_loss    after that epoch
    kept                                True in exactly one row of each run: the epoch that was chosen on validation
    test_accuracy, test_macro_f1, test_loss, seconds    of the run, in its kept row alone
    chosen_learning_rate, chosen_C, …   what was chosen on validation, in the kept row alone

So `frame[frame.kept]` is a table of runs, and `frame[~frame.rejected].dropna(subset="epoch")` are their curves.
"""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

_RUN = ["method", "budget", "train_rows", "seed"]
_EPOCH = ["learning_rate", "rejected", "epoch", "validation_accuracy", "validation_loss", "kept"]
_TEST = ["test_accuracy", "test_macro_f1", "test_loss", "seconds"]


def select_runs(results: dict[str, Any], method: str, budget: str) -> list[dict[str, Any]]:
    """The finished runs of a method with so many labels, by seed."""
    found = [run for run in results["runs"] if run["method"] == method and run["budget"] == budget]
    return sorted(found, key=lambda run: run["seed"])


def largest_budget(results: dict[str, Any], method: str) -> str | None:
    """The largest budget at which the method has a finished run."""
    return next((budget for budget in reversed(results["budgets"]) if select_runs(results, method, budget)), None)


def format_json(results: dict[str, Any]) -> str:
    kept = {
        **results,
        "runs": [{name: value for name, value in run.items() if name != "predictions"} for run in results["runs"]],
        "test": {name: value for name, value in results["test"].items() if name != "texts"},
    }
    return json.dumps(_finite(kept), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: the loss of a run that diverged becomes null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_csv(results: dict[str, Any]) -> str:
    chosen = sorted({f"chosen_{name}" for run in results["runs"] for name in run["chosen"]})
    file = io.StringIO()
    writer = csv.DictWriter(file, [*_RUN, *_EPOCH, *_TEST, *chosen], lineterminator="\n")
    writer.writeheader()
    for run in results["runs"]:
        writer.writerows(_list_epochs(run))
    return file.getvalue()


def _list_epochs(run: dict[str, Any]) -> list[dict[str, Any]]:
    of_run = {name: run[name] for name in _RUN}
    rows = [{**of_run, **_describe_epoch(epoch, run["chosen"]), "rejected": False} for epoch in run["epochs"]]
    for row in rows:
        row["kept"] = row["epoch"] == run["best_epoch"]
    if not any(row["kept"] for row in rows):
        accuracy = run["validation"]["accuracy"]
        rows.append({**of_run, "validation_accuracy": accuracy, "rejected": False, "kept": True})
    row = next(row for row in rows if row["kept"])
    row.update({name: run["test"].get(name.removeprefix("test_")) for name in _TEST[:-1]}, seconds=run["seconds"])
    row.update({f"chosen_{name}": value for name, value in run["chosen"].items()})
    for trial in run["rejected"]:
        described = [_describe_epoch(epoch, trial) for epoch in trial["epochs"]]
        described = described or [{"learning_rate": trial["learning_rate"]}]  # it diverged
        rows += [{**of_run, **epoch, "rejected": True, "kept": False} for epoch in described]
    return rows


def _describe_epoch(epoch: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    return {
        "learning_rate": trial.get("learning_rate"),
        "epoch": epoch["epoch"],
        "validation_accuracy": epoch["accuracy"],
        "validation_loss": epoch.get("loss"),
    }


__all__ = ["format_csv", "format_json", "largest_budget", "select_runs"]
