"""Samples of labels: the right number, every class, nested, and different for each seed."""

from collections import Counter

import pytest
from greffe.train.comparison.budgets import parse_budgets, sample_rows
from labelled_texts import make_labelled

LABELS = ["a"] * 70 + ["b"] * 28 + ["c"] * 2
DATA = make_labelled([f"text {number}" for number in range(100)], LABELS)


def test_all_is_everything_in_the_order_of_the_file() -> None:
    assert sample_rows(DATA, "all", seed=3) == list(range(100))


@pytest.mark.parametrize("budget", [3, 10, 50, 99])
def test_each_class_has_its_share_and_one_text_at_least(budget: int) -> None:
    rows = sample_rows(DATA, str(budget), seed=0)
    assert len(set(rows)) == len(rows) == budget
    counts = Counter(LABELS[row] for row in rows)
    for name, share in (("a", 0.7), ("b", 0.28), ("c", 0.02)):
        assert counts[name] >= 1
        assert abs(counts[name] - share * budget) <= 1.6


def test_a_larger_budget_holds_a_smaller_one() -> None:
    small, large = (set(sample_rows(DATA, budget, seed=1)) for budget in ("12", "40"))
    assert small < large


def test_a_seed_decides() -> None:
    assert sample_rows(DATA, "20", seed=1) == sample_rows(DATA, "20", seed=1)
    assert sample_rows(DATA, "20", seed=1) != sample_rows(DATA, "20", seed=2)


def test_budgets_are_sorted_and_unique() -> None:
    assert parse_budgets(["all", "40", "9", "40"], rows=100, classes=3) == ["9", "40", "all"]


@pytest.mark.parametrize("value", ["2", "101", "many", "-5", "1.5"])
def test_a_budget_that_the_data_cannot_give_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="between 3"):
        parse_budgets([value], rows=100, classes=3)
