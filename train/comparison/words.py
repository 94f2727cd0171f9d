"""How methods, budgets and numbers are called: the same in the verdict, the tables, the figures and the page."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

# In the order in which they are shown: the sceptic's baselines, the control, the two grafts.
METHODS = {
    "majority": "majority class",
    "tfidf": "TF-IDF",
    "scratch": "from scratch",
    "frozen": "frozen trunk",
    "pretrained": "pre-trained",
}


def name_method(method: str) -> str:
    return METHODS.get(method, method)


def name_budget(results: dict[str, Any], budget: str) -> str:
    """`400 labels`, `all 1,555 labels`: what was really trained on, where a run says it."""
    rows = count_labels(results, budget)
    if rows is None:
        return f"{budget} labels"
    return f"{'all ' if budget == 'all' else ''}{rows:,} label{'' if rows == 1 else 's'}"


def count_labels(results: dict[str, Any], budget: str) -> int | None:
    found = [run["train_rows"] for run in results["runs"] if run["budget"] == budget]
    if found:
        return int(max(found))
    return int(budget) if budget.isdigit() else None


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def percent_with_spread(mean: float, sd: float | None) -> str:
    """`78.1 ± 0.8 %`; without the spread where one run cannot have any."""
    return percent(mean) if sd is None else f"{100 * mean:.1f} ± {100 * sd:.1f} %"


def points(difference: float) -> str:
    """The size of a difference in percentage points. One that is not zero is not written as zero."""
    size = 100 * abs(difference)
    return f"{size:.1f}" if size >= 0.05 or size == 0 else f"{size:.1g}"


def signed_points(difference: float) -> str:
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return sign + points(difference)


def interval(low: float, high: float) -> str:
    return f"{signed_points(low)} to {signed_points(high)}"


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def join(names: list[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def without_folders(value: object) -> str:
    """A report is shown to others: of an absolute path only the last part, the rest is the user's."""
    text = str(value)
    return PurePath(text).name if text.startswith(("/", "~")) or text[1:3] == ":\\" else text


def one_line(text: str, longest: int) -> str:
    """Text from outside on one line, cut at a word, without characters that no page may hold."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if len(line) <= longest:
        return line
    cut = line[: longest - 1]
    start = cut.rsplit(" ", 1)[0]
    return (start if len(start) > longest // 2 else cut) + "…"


__all__ = [
    "METHODS",
    "count",
    "count_labels",
    "duration",
    "interval",
    "join",
    "name_budget",
    "name_method",
    "one_line",
    "percent",
    "percent_with_spread",
    "points",
    "probability",
    "signed_points",
    "without_folders",
]
