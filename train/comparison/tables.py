"""The tables of a report, as words in rows and columns: the page, the Markdown and the terminal show the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .statistics import RIVALS, find_difference, find_summary
from .words import (
    METHODS,
    count,
    duration,
    interval,
    join,
    name_budget,
    name_method,
    percent,
    percent_with_spread,
    probability,
    signed_points,
    without_folders,
)

Results = dict[str, Any]


@dataclass(frozen=True)
class Table:
    title: str
    heads: list[str]
    rows: list[list[str]]
    # One sentence on how to read it.
    note: str = ""
    # `l` or `r` for each column: words to the left, numbers to the right.
    align: str = ""


def tabulate_accuracy(results: Results, statistics: Results) -> Table:
    """A row for each method, a column for each budget."""
    seeds = len(results["seeds"])
    note = f"Mean ± standard deviation over {seeds} seeds; where runs are missing, the number of those that are there."
    if seeds == 1:
        note = "There is one seed: the spread over seeds is unknown."
    return _by_budget("Test accuracy", results, statistics, _say_accuracy, f"{note} {explain_choices(results)}")


def explain_choices(results: Results) -> str:
    """How many labels there are beside those of the budgets, and what they are used for."""
    labels = count(results["data"]["validation"]["used"], "label")
    return f"On top come {labels} of validation, which choose epochs, learning rates and strengths."


def _say_accuracy(results: Results, summary: dict[str, Any]) -> str:
    words = percent_with_spread(summary["test_accuracy"]["mean"], summary["test_accuracy"]["sd"])
    return words if summary["n"] == len(results["seeds"]) else f"{words} (n = {summary['n']})"


def tabulate_epochs(results: Results, statistics: Results) -> Table:
    """Epochs until a method is near its best, and what near its best is."""
    note = (
        "The first epoch whose validation accuracy is at least 95 % of the best of the same run, mean ± standard "
        "deviation over seeds; in brackets the accuracy then, for a method that never learns is near its best at once."
    )
    return _by_budget("Epochs to 95 % of the best accuracy", results, statistics, _say_epochs, note)


def _say_epochs(results: Results, summary: dict[str, Any]) -> str:
    epochs = summary["epochs_to_95"]
    if epochs is None:
        return ""
    spread = "" if epochs["sd"] is None else f" ± {epochs['sd']:.1f}"
    mean = f"{epochs['mean']:.0f}" if epochs["sd"] is None else f"{epochs['mean']:.1f}"
    return f"{mean}{spread} ({percent(summary['accuracy_at_95']['mean'])})"


def _by_budget(
    title: str, results: Results, statistics: Results, say: Callable[[Results, dict[str, Any]], str], note: str
) -> Table:
    budgets = results["budgets"]
    rows = []
    for method in shown_methods(statistics):
        found = [find_summary(statistics, method, budget) for budget in budgets]
        cells = [say(results, summary) if summary else "" for summary in found]
        if any(cells):
            rows.append([name_method(method), *(cell or "–" for cell in cells)])
    heads = ["method", *(name_budget(results, budget) for budget in budgets)]
    return Table(title, heads, rows, note, "l" + "r" * len(budgets))


def tabulate_differences(results: Results, statistics: Results) -> Table:
    rows = []
    for budget in reversed(results["budgets"]):
        for rival in RIVALS:
            if found := find_difference(statistics, rival, budget):
                spread = "–" if found["sd"] is None else f"{100 * found['sd']:.1f}"
                rows.append(
                    [
                        name_budget(results, budget),
                        name_method(rival),
                        signed_points(found["mean"]),
                        spread,
                        interval(found["low"], found["high"]),
                        probability(found["p"]),
                        str(found["n"]),
                    ]
                )
    heads = ["labels", "pre-trained minus", "points", "sd over seeds", "95 % interval", "p", "seeds"]
    return Table("Differences", heads, rows, explain_differences(statistics), "llrrrrr")


def explain_differences(statistics: Results) -> str:
    """What the interval and the p-value cover, in words."""
    seeds = max((difference["n"] for difference in statistics["differences"]), default=0)
    if seeds == 1:
        covered = (
            "With one seed the spread over seeds is unknown: the interval covers the choice of the test texts alone "
            "(Student's t)."
        )
    else:
        covered = (
            "The interval covers both the choice of the seeds and that of the test texts: Student's t on the sum of "
            "both variances, wider where seeds are few (degrees of freedom after Welch and Satterthwaite)."
        )
    return (
        f"Points of test accuracy on the same texts and seeds. {covered} p covers the test texts alone: how often a "
        "toss of a coin for each text would favour one side as much (paired randomisation test, 10,000 draws)."
    )


def tabulate_details(results: Results, statistics: Results) -> Table:
    """All of a method and budget in one line."""
    rows = []
    for summary in statistics["summaries"]:
        runs = [
            run for run in results["runs"] if (run["method"], run["budget"]) == (summary["method"], summary["budget"])
        ]
        accuracy, f1, validation = (summary[name] for name in ("test_accuracy", "test_macro_f1", "validation_accuracy"))
        rows.append(
            [
                name_method(summary["method"]),
                f"{summary['train_rows']:,}",
                str(summary["n"]),
                percent_with_spread(accuracy["mean"], accuracy["sd"]),
                f"{100 * accuracy['min']:.1f} to {100 * accuracy['max']:.1f} %",
                percent_with_spread(f1["mean"], f1["sd"]),
                percent_with_spread(validation["mean"], validation["sd"]),
                "–" if summary["best_epoch"] is None else f"{summary['best_epoch']['mean']:.1f}",
                _say_chosen(runs),
                duration(summary["seconds"]["mean"]),
            ]
        )
    heads = ["method", "labels", "seeds", "test accuracy", "lowest to highest", "macro F1", "validation accuracy"]
    note = "Epoch and settings are chosen on validation; the test texts are used once for each run."
    return Table("Every method and budget", [*heads, "kept epoch", "chosen", "time a run"], rows, note, "lrrrrrrrlr")


def _say_chosen(runs: list[dict[str, Any]]) -> str:
    """`learning_rate 0.0005 (4), 0.001 (1)`: values with the number of runs that chose them, if they differ."""
    names = list(dict.fromkeys(name for run in runs for name in run["chosen"]))
    words = []
    for name in names:
        chosen = Counter(run["chosen"][name] for run in runs if name in run["chosen"]).most_common()
        values = [_plain(value) + (f" ({times})" if len(chosen) > 1 else "") for value, times in chosen]
        words.append(f"{name} {', '.join(values)}")
    return "; ".join(words) or "–"


def tabulate_data(results: Results) -> Table:
    rows = []
    for name in ("train", "validation", "test"):
        if part := results["data"].get(name):
            classes = ", ".join(f"{label}: {rows_of:,}" for label, rows_of in part["classes"].items())
            file = without_folders(part["file"])
            rows.append([name, file, f"{part['rows']:,}", f"{part['used']:,}", classes, part["sha256"]])
    return Table("Data", ["part", "file", "rows", "used", "classes", "SHA-256"], rows, _say_removed(results), "llrrll")


def _say_removed(results: Results) -> str:
    removed = results["data"].get("overlap", {}).get("removed", {})
    parts = [f"{count(number, 'row')} of {part}" for part, number in removed.items() if number]
    return f"Removed, because they stand in validation or test too: {join(parts)}." if parts else "No row was removed."


def tabulate_model(results: Results) -> Table:
    """The pre-trained model: which, and what is known of its pre-training."""
    model = results["model"]
    total = sum(model["parameters"].values())
    rows = [
        ["folder", without_folders(model["path"])],
        ["parameters", f"{total:,}"],
        ["SHA-256 of the weights", model["sha256"]],
    ]
    pretraining = model.get("pretraining")
    if pretraining:
        rows += [
            ["corpus", ", ".join(map(without_folders, pretraining.get("corpus") or [])) or "–"],
            ["pre-training", duration(pretraining["seconds"])] if pretraining.get("seconds") is not None else [],
            ["tokens seen", f"{pretraining['tokens_seen']:,.0f}"] if pretraining.get("tokens_seen") else [],
            *([name.replace("_", " "), _plain(value)] for name, value in (pretraining.get("metrics") or {}).items()),
        ]
    return Table("The pre-trained model", ["what", "value"], [row for row in rows if row], "", "ll")


def tabulate_settings(results: Results) -> Table:
    rows = [[name, _plain(value)] for name, value in results["settings"].items()]
    return Table("Settings", ["option", "value"], rows, "", "ll")


def tabulate_times(results: Results) -> Table:
    """Time of all runs of a method, and of everything."""
    rows = []
    for method in METHODS:
        seconds = [run["seconds"] for run in results["runs"] if run["method"] == method]
        if seconds:
            mean = duration(sum(seconds) / len(seconds))
            rows.append([name_method(method), f"{len(seconds):,}", mean, duration(sum(seconds))])
    rows.append(["the last call of the command", "", "", duration(results["seconds"])])
    note = "Finished runs are not repeated, so the last call can be shorter than all runs. Pre-training is not counted."
    return Table("Time", ["what", "runs", "a run", "together"], rows, note, "lrrr")


def tabulate_versions(results: Results) -> Table:
    facts = {**results["versions"], **results["machine"]}
    return Table(
        "Versions and machine", ["what", "value"], [[name, _plain(value)] for name, value in facts.items()], "", "ll"
    )


def shown_methods(statistics: Results) -> list[str]:
    return list(dict.fromkeys(summary["method"] for summary in statistics["summaries"]))


def _plain(value: Any) -> str:
    """A value from outside as a person would write it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(item)}" for name, item in value.items())
    return without_folders(value)


__all__ = [
    "Table",
    "explain_choices",
    "explain_differences",
    "shown_methods",
    "tabulate_accuracy",
    "tabulate_data",
    "tabulate_details",
    "tabulate_differences",
    "tabulate_epochs",
    "tabulate_model",
    "tabulate_settings",
    "tabulate_times",
    "tabulate_versions",
]
