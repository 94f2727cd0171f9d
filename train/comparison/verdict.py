"""The verdict in plain words: what pre-training adds, true to the figures whatever they are.

A difference is claimed only where both its 95 % interval and its paired test tell it from chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .results import largest_budget, select_runs
from .statistics import direction, find_difference, get_statistics
from .words import (
    count,
    interval,
    join,
    name_budget,
    name_method,
    percent_with_spread,
    points,
    probability,
    signed_points,
)

# How the second finding follows the first: by whether the pre-trained model is above (1), below (-1) or level (0).
_LINKS = {(1, 1): ", and", (0, 0): ", and", (0, -1): ", and", (-1, -1): ", and", (-1, 0): ", and"}


@dataclass(frozen=True)
class Verdict:
    headline: str
    # Why it may be worth less than it seems.
    warnings: list[str]
    # What its figures are.
    notes: list[str]


def format_verdict(results: dict[str, Any]) -> str:
    """The verdict and its notes, as the terminal shows them."""
    verdict = judge(results, get_statistics(results))
    return "\n".join([verdict.headline, *verdict.warnings, *verdict.notes])


def judge(results: dict[str, Any], statistics: dict[str, Any]) -> Verdict:
    main = _find_main(results, statistics)
    if main is None:
        headline = _say_what_is_there(results, statistics)
        warnings = [*_warn_of_leaks(results), *_list_gaps(results)]
        return Verdict(headline, warnings, _explain_spread(statistics, [headline]))
    gain = _find_gain(results, statistics, main)
    sentences = [
        _say_main(results, statistics, main),
        _say_gain(results, statistics, main, gain) if gain else None,
        _say_loss(results, statistics, {main["budget"], *([gain["budget"]] if gain else [])}),
    ]
    headline = " ".join(filter(None, sentences))
    warnings = [
        *_warn_of_leaks(results),
        *_warn_of_seeds(main["n"]),
        *_warn_of_majority(statistics, main["budget"]),
        *_warn_of_early_end(results),
        *_list_gaps(results),
    ]
    notes = [*_explain_interval(main), *_explain_spread(statistics, [headline, *warnings])]
    return Verdict(headline, warnings, notes)


def _find_main(results: dict[str, Any], statistics: dict[str, Any]) -> dict[str, Any] | None:
    """The difference that answers the question: to scratch if it was run, or else to TF-IDF, at the largest budget."""
    for rival in ("scratch", "tfidf"):
        for budget in reversed(results["budgets"]):
            if difference := find_difference(statistics, rival, budget):
                return difference
    return None


def _say_what_is_there(results: dict[str, Any], statistics: dict[str, Any]) -> str:
    """For results that do not answer the question."""
    if not results["runs"]:
        return "No run is finished yet."
    budget = largest_budget(results, "pretrained")
    if budget is not None:
        return (
            f"With {name_budget(results, budget)}, the pre-trained model reaches "
            f"{_accuracy(statistics, 'pretrained', budget)}. What pre-training adds is not known: neither training "
            "from scratch nor TF-IDF has a run to compare with."
        )
    best = max(statistics["summaries"], key=lambda summary: summary["test_accuracy"]["mean"])
    return (
        "What pre-training adds is not known: the pre-trained model has no finished run. The best accuracy so far is "
        f"{_accuracy(statistics, best['method'], best['budget'])}: {name_method(best['method'])}, "
        f"{name_budget(results, best['budget'])}."
    )


def _say_main(results: dict[str, Any], statistics: dict[str, Any], main: dict[str, Any]) -> str:
    start = f"With {name_budget(results, main['budget'])}, "
    if main["rival"] == "tfidf":
        return f"{start}the pre-trained model {_say_tfidf(main)}."
    tfidf = find_difference(statistics, "tfidf", main["budget"])
    if tfidf is None:
        return f"{start}{_say_scratch(main)}."
    link = _LINKS.get((direction(main), direction(tfidf)), ", but")
    if not direction(main):  # another subject than pre-training
        link += " the pre-trained model"
    return f"{start}{_say_scratch(main)}{link} {_say_tfidf(tfidf)}."


def _say_scratch(difference: dict[str, Any]) -> str:
    sign = direction(difference)
    if sign > 0:
        return f"pre-training adds {_with_spread(difference)} points over training from scratch"
    if sign < 0:
        return f"pre-training loses {_with_spread(difference)} points against training from scratch"
    return (
        f"no difference between pre-training and training from scratch can be told from chance {_evidence(difference)}"
    )


def _say_tfidf(difference: dict[str, Any]) -> str:
    sign = direction(difference)
    if sign > 0:
        return f"is {points(difference['mean'])} points above TF-IDF"
    if sign < 0:
        return f"does not beat TF-IDF here: it is {points(difference['mean'])} points below it"
    return f"cannot be told from TF-IDF {_evidence(difference)}"


def _with_spread(difference: dict[str, Any]) -> str:
    spread = difference["sd"]
    return points(difference["mean"]) + ("" if spread is None else f" ± {100 * spread:.1f}")


def _evidence(difference: dict[str, Any]) -> str:
    """Why there is no claim: the interval contains zero, or else the paired test is not convinced."""
    low, high = difference["low"], difference["high"]
    doubt = "" if low <= 0 <= high else f", but p = {probability(difference['p'])}"
    return f"({signed_points(difference['mean'])} points, 95 % interval {interval(low, high)}{doubt})"


def _find_gain(results: dict[str, Any], statistics: dict[str, Any], main: dict[str, Any]) -> dict[str, Any] | None:
    """Where the gain over scratch is largest, if that is at another budget and no accident."""
    found = [find_difference(statistics, "scratch", budget) for budget in results["budgets"]]
    gains = [difference for difference in found if difference and direction(difference) > 0]
    if main["rival"] != "scratch" or not gains:
        return None
    best = max(gains, key=lambda difference: difference["mean"])
    return best if best["mean"] > main["high"] else None  # else no larger than the gain here may be


def _say_gain(results: dict[str, Any], statistics: dict[str, Any], main: dict[str, Any], gain: dict[str, Any]) -> str:
    labels, size = name_budget(results, gain["budget"]), _with_spread(gain)
    if direction(main) > 0:
        start = f"The gain is largest with {labels}: {size} points"
    else:
        start = f"It does help with {labels}: {size} points over training from scratch"
    tfidf = find_difference(statistics, "tfidf", gain["budget"])
    if tfidf is None:
        return f"{start}."
    beside = {
        1: f", {points(tfidf['mean'])} above TF-IDF",
        0: f", where it cannot be told from TF-IDF ({signed_points(tfidf['mean'])} points)",
        -1: f", but {points(tfidf['mean'])} below TF-IDF",
    }
    return f"{start}{beside[direction(tfidf)]}."


def _say_loss(results: dict[str, Any], statistics: dict[str, Any], said: set[str]) -> str | None:
    """The worst loss at a budget of which nothing is said yet, against scratch or TF-IDF, if it is no accident."""
    found = [
        find_difference(statistics, rival, budget)
        for budget in results["budgets"]
        if budget not in said
        for rival in ("scratch", "tfidf")
    ]
    losses = [difference for difference in found if difference and direction(difference) < 0]
    if not losses:
        return None
    worst = min(losses, key=lambda difference: difference["mean"])
    rival = "training from scratch" if worst["rival"] == "scratch" else "TF-IDF"
    labels = name_budget(results, worst["budget"])
    return f"With {labels} the pre-trained model is {points(worst['mean'])} points below {rival}."


def _explain_interval(main: dict[str, Any]) -> list[str]:
    """The interval, where the headline does not give it itself."""
    if not direction(main):
        return []
    name = "training from scratch" if main["rival"] == "scratch" else "TF-IDF"
    sources = "test texts" if main["n"] == 1 else "seeds and test texts"
    return [
        f"The 95 % interval of the difference to {name}, over {sources}, is "
        f"{interval(main['low'], main['high'])} points."
    ]


def _explain_spread(statistics: dict[str, Any], sentences: list[str]) -> list[str]:
    """What ± is, where it was said."""
    if not any("±" in sentence for sentence in sentences):
        return []
    seeds = max(summary["n"] for summary in statistics["summaries"])
    return [f"± is the standard deviation over {count(seeds, 'seed')}."]


def _warn_of_leaks(results: dict[str, Any]) -> list[str]:
    """Texts that stand in two parts and were kept there."""
    leaks = results["data"]["overlap"]["leaks"] if results["settings"].get("keep_overlap") else []
    if not leaks:
        return []
    found = [f"{leak['exact'] + leak['near']:,} of {leak['part']} stand in {leak['other']}" for leak in leaks]
    return [
        f"Texts that stand in two parts were kept (--keep_overlap): {join(found)}, exactly or nearly. All accuracies "
        "may be too high."
    ]


def _warn_of_early_end(results: dict[str, Any]) -> list[str]:
    """Where most runs from scratch were at their best when they ended: what they lack may be time alone."""
    cut = []
    for budget in results["budgets"]:
        runs = [run for run in select_runs(results, "scratch", budget) if run["epochs"]]
        last = [run for run in runs if run["best_epoch"] == run["epochs"][-1]["epoch"]]
        if 2 * len(last) > len(runs):
            cut.append(name_budget(results, budget))
    if not cut:
        return []
    return [
        f"From scratch, the kept epoch is the last one in most runs with {join(cut)}: training may have been stopped "
        "early, and the gain may be smaller with more --num_train_epochs."
    ]


def _warn_of_seeds(seeds: int) -> list[str]:
    if seeds == 1:
        return ["There is one seed: the spread over seeds is unknown, and another seed may give another result."]
    if seeds == 2:
        return ["There are two seeds only: the spread over seeds, and so the interval, is a rough guess."]
    return []


def _warn_of_majority(statistics: dict[str, Any], budget: str) -> list[str]:
    difference = find_difference(statistics, "majority", budget)
    if difference is None or direction(difference) > 0:
        return []
    found = "is below" if direction(difference) < 0 else "cannot be told from"
    accuracy = _accuracy(statistics, "majority", budget)
    return [f"The pre-trained model {found} always answering the most frequent class, {accuracy}."]


def _accuracy(statistics: dict[str, Any], method: str, budget: str) -> str:
    summaries = {
        (summary["method"], summary["budget"]): summary["test_accuracy"] for summary in statistics["summaries"]
    }
    accuracy = summaries[method, budget]
    return percent_with_spread(accuracy["mean"], accuracy["sd"])


def _list_gaps(results: dict[str, Any]) -> list[str]:
    """What was not run, or is not finished."""
    gaps = []
    asked = {
        (method, budget, seed)
        for method in results["methods"]
        for budget in results["budgets"]
        for seed in results["seeds"]
    }
    missing = asked - {(run["method"], run["budget"], run["seed"]) for run in results["runs"]}
    if missing:
        gaps.append(f"{len(missing):,} of {count(len(asked), 'run')} are not finished: this is what stands so far.")
    unasked = [name_method(method) for method in ("tfidf", "scratch") if method not in results["methods"]]
    if unasked and results["runs"]:
        gaps.append(f"Not run: {join(unasked)}.")
    return gaps


__all__ = ["Verdict", "format_verdict", "judge"]
