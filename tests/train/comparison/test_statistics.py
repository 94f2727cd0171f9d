"""Statistics of a comparison, beside references: plain loops, exact tests, all signs counted out, simulated truth."""

import itertools
import math
import statistics as reference

import numpy as np
import pytest
from comparison_results import make_results, remove_runs
from greffe.train.comparison.statistics import (
    compute_statistics,
    describe,
    direction,
    find_difference,
    find_interval,
    find_near_best,
    find_summary,
    randomisation_p,
)
from scipy import stats


def draw_differences(seeds: int, texts: int, gain: float = 0.05, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.choice([-1, 0, 1], (seeds, texts), p=[0.1, 0.8 - gain, 0.1 + gain]).astype(np.int8)


def test_interval_is_that_of_welch_and_satterthwaite():
    difference = draw_differences(4, 60)
    difference[0] = np.abs(difference[0])  # a seed that stands apart
    of_texts = reference.variance(difference.mean(axis=0).tolist()) / 60
    of_seeds = reference.variance(difference.mean(axis=1).tolist()) / 4
    freedom = (of_texts + of_seeds) ** 2 / (of_texts**2 / 59 + of_seeds**2 / 3)
    expected = stats.t.interval(0.95, freedom, difference.mean(), math.sqrt(of_texts + of_seeds))
    assert find_interval(difference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seeds", "of_seeds", "of_texts", "least", "most"),
    [
        (5, 0.05, 0.1, 0.94, 0.97),  # seeds dominate
        (3, 0.05, 0.1, 0.92, 0.97),
        (2, 0.05, 0.1, 0.87, 0.97),
        (5, 0.02, 0.4, 0.94, 0.98),
        (3, 0.012, 0.4, 0.94, 0.98),
        (3, 0.0, 0.4, 0.94, 0.98),  # texts and chance alone
        (1, 0.0, 0.4, 0.94, 0.96),
    ],
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(seeds, of_seeds, of_texts, least, most):
    """Other seeds and other texts are drawn, again and again, around a true difference of 0.05."""
    draw, texts, times = np.random.default_rng(3), 400, 3_000
    held = 0
    for _ in range(times):
        means = 0.05 + of_seeds * draw.normal(size=(seeds, 1)) + of_texts * draw.normal(size=texts)
        low, high = find_interval(means + 0.2 * draw.normal(size=(seeds, texts)))
        held += low <= 0.05 <= high
    assert least <= held / times <= most


def test_interval_of_one_seed_is_that_of_the_texts():
    difference = draw_differences(1, 2_000)
    expected = stats.t.interval(0.95, 1_999, difference.mean(), stats.sem(difference[0]))
    assert find_interval(difference) == pytest.approx(expected)
    assert find_interval(np.repeat(difference, 3, axis=0)) == pytest.approx(expected)  # seeds that do not differ


def test_interval_of_next_to_nothing():
    assert find_interval(np.zeros((3, 50), np.int8)) == (0, 0)
    assert find_interval(np.ones((3, 1), np.int8)) == (-1, 1)
    assert find_interval(np.array([[1, 1, 1], [-1, -1, -1]])) == (-1, 1)  # no difference is larger


def test_interval_grows_with_the_spread_over_seeds():
    """The sum over seeds of each text is the same, so that only the seeds differ."""
    difference = draw_differences(3, 500)
    apart = np.sort(difference, axis=0)
    narrow, wide = (np.ptp(find_interval(array)) for array in (difference, apart))
    assert wide > 1.5 * narrow
    assert apart.mean() == difference.mean()


def test_p_of_one_seed_is_the_exact_test_of_mcnemar():
    for seed in range(5):
        difference = draw_differences(1, 300, seed=seed)
        wins, losses = int((difference == 1).sum()), int((difference == -1).sum())
        expected = stats.binomtest(wins, wins + losses).pvalue
        assert randomisation_p(difference) == pytest.approx(expected, abs=0.015)


def test_p_of_several_seeds_counts_all_signs():
    difference = draw_differences(3, 12, gain=0.3)
    sums = difference.sum(axis=0, dtype=int)
    flips = np.array(list(itertools.product([-1, 1], repeat=12))) @ sums
    assert randomisation_p(difference) == pytest.approx(np.mean(np.abs(flips) >= abs(sums.sum())), abs=0.015)


def test_p_without_any_difference_is_one():
    assert randomisation_p(np.zeros((3, 50), np.int8)) == 1


def test_describe():
    values = [0.71, 0.74, 0.69]
    expected = {"mean": reference.mean(values), "sd": reference.stdev(values), "min": 0.69, "max": 0.74}
    assert describe(values) == pytest.approx(expected)
    assert describe([0.5])["sd"] is None


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0.5, 0.7, 0.77, 0.8, 0.79], (3, 0.77)),  # 0.76 is enough
        ([0.5, 0.76, 0.8], (2, 0.76)),
        ([0.5, 0.5], (1, 0.5)),  # learns nothing
        ([], None),
    ],
)
def test_epochs_to_come_near_the_best(accuracies, expected):
    assert find_near_best([{"epoch": n, "accuracy": a} for n, a in enumerate(accuracies, 1)]) == expected


def test_summaries():
    results = make_results()
    runs = [run for run in results["runs"] if (run["method"], run["budget"]) == ("scratch", "400")]
    summary = find_summary(compute_statistics(results), "scratch", "400")
    accuracies = [run["test"]["accuracy"] for run in runs]
    assert summary["test_accuracy"]["mean"] == pytest.approx(reference.mean(accuracies))
    assert summary["test_accuracy"]["sd"] == pytest.approx(reference.stdev(accuracies))
    reached = [find_near_best(run["epochs"])[0] for run in runs]
    assert summary["epochs_to_95"]["mean"] == pytest.approx(reference.mean(reached))
    assert summary["best_epoch"]["mean"] == pytest.approx(reference.mean(run["best_epoch"] for run in runs))
    assert (summary["n"], summary["seeds"], summary["train_rows"]) == (5, [0, 1, 2, 3, 4], 400)


def test_differences_are_those_of_the_accuracies():
    results = make_results()
    found = compute_statistics(results)
    for rival in ("scratch", "tfidf", "frozen", "majority"):
        for budget in results["budgets"]:
            means = [find_summary(found, method, budget)["test_accuracy"]["mean"] for method in ("pretrained", rival)]
            difference = find_difference(found, rival, budget)
            assert difference["mean"] == pytest.approx(means[0] - means[1])
            assert difference["low"] < difference["mean"] < difference["high"]
    assert compute_statistics(results) == found  # the same draws each time


def test_only_seeds_that_both_have_are_compared():
    results = make_results(seeds=4)
    results = remove_runs(results, method="scratch", budget="all", seed=1)
    results = remove_runs(results, method="pretrained", budget="all", seed=3)
    found = compute_statistics(results)
    difference = find_difference(found, "scratch", "all")
    accuracy = {
        (run["method"], run["seed"]): run["test"]["accuracy"] for run in results["runs"] if run["budget"] == "all"
    }
    expected = np.mean([accuracy["pretrained", seed] - accuracy["scratch", seed] for seed in (0, 2)])
    assert difference["seeds"] == [0, 2]
    assert difference["mean"] == pytest.approx(expected)
    assert find_summary(found, "scratch", "all")["n"] == 3


def test_no_difference_where_no_seed_is_shared():
    results = make_results(seeds=2, budgets=["all"])
    results = remove_runs(results, method="scratch", seed=0)
    results = remove_runs(results, method="pretrained", seed=1)
    assert find_difference(compute_statistics(results), "scratch", "all") is None


def test_direction_needs_both_measures():
    sure = {"mean": 0.05, "low": 0.02, "high": 0.08, "p": 0.001}
    assert direction(sure) == 1
    assert direction({**sure, "p": 0.06}) == 0
    assert direction({**sure, "low": -0.01}) == 0
    assert direction({"mean": -0.05, "low": -0.08, "high": -0.02, "p": 0.001}) == -1


def test_predictions_in_another_order_are_refused():
    results = make_results(seeds=1, budgets=["400"])
    run = next(run for run in results["runs"] if run["method"] == "scratch")
    run["predictions"] = run["predictions"][::-1]
    message = (
        r"expected predictions of accuracy 0\.6\d+ in the run scratch, 400 labels, seed 0, found 0\.\d+: they are not"
    )
    with pytest.raises(ValueError, match=message):
        compute_statistics(results)
    run["predictions"] = run["predictions"][1:]
    with pytest.raises(ValueError, match=r"expected 400 test predictions in the run scratch, .* found 399"):
        compute_statistics(results)
