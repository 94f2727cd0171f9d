"""The verdict, word for word, for every outcome: whatever the figures are, it says what they say."""

import re

import pytest
from comparison_results import METHODS, make_results, remove_runs
from greffe.train.comparison.statistics import compute_statistics
from greffe.train.comparison.verdict import format_verdict, judge

NUMBER = r"[+−]?\d+(\.\d+)?"


def accuracies(pretrained: float, scratch: float, tfidf: float, **others: float) -> dict[str, dict[str, float]]:
    values = {"majority": 0.5, "frozen": 0.7, "pretrained": pretrained, "scratch": scratch, "tfidf": tfidf, **others}
    return {method: dict.fromkeys(("100", "400", "all"), value) for method, value in values.items()}


def headline(results) -> str:
    """With figures as N: the words are pinned here, the figures in tests of their own."""
    return re.sub(NUMBER, "N", judge(results, compute_statistics(results)).headline)


OUTCOMES = {
    (0.85, 0.75, 0.80): "pre-training adds N ± N points over training from scratch, and is N points above TF-IDF",
    (
        0.80,
        0.72,
        0.87,
    ): "pre-training adds N ± N points over training from scratch, but does not beat TF-IDF here: it is "
    "N points below it",
    (0.80, 0.72, 0.80): "pre-training adds N ± N points over training from scratch, but cannot be told from TF-IDF "
    "(N points, N % interval N to N)",
    (
        0.80,
        0.80,
        0.72,
    ): "no difference between pre-training and training from scratch can be told from chance (N points, "
    "N % interval N to N), but the pre-trained model is N points above TF-IDF",
    (
        0.80,
        0.80,
        0.80,
    ): "no difference between pre-training and training from scratch can be told from chance (N points, "
    "N % interval N to N), and the pre-trained model cannot be told from TF-IDF (N points, N % interval N to N)",
    (
        0.75,
        0.75,
        0.84,
    ): "no difference between pre-training and training from scratch can be told from chance (N points, "
    "N % interval N to N), and the pre-trained model does not beat TF-IDF here: it is N points below it",
    (0.72, 0.80, 0.64): "pre-training loses N ± N points against training from scratch, but is N points above TF-IDF",
    (0.72, 0.80, 0.72): "pre-training loses N ± N points against training from scratch, and cannot be told from TF-IDF "
    "(N points, N % interval N to N)",
    (0.70, 0.78, 0.85): "pre-training loses N ± N points against training from scratch, and does not beat TF-IDF here: "
    "it is N points below it",
}


@pytest.mark.parametrize(("values", "words"), OUTCOMES.items(), ids=map(str, OUTCOMES))
def test_every_outcome(values, words):
    results = make_results(budgets=["400"], accuracy=accuracies(*values), seeds=3, spread=0.002)
    assert headline(results) == f"With N labels, {words}."


def test_figures_are_those_of_the_runs():
    results = make_results(budgets=["all"], spread=0)
    difference = compute_statistics(results)["differences"][0]
    text = format_verdict(results)
    assert text.startswith("With all 1,555 labels, pre-training adds 8.0 ± 0.0 points over training from scratch, ")
    low, high = (f"{100 * difference[side]:+.1f}" for side in ("low", "high"))
    assert (
        f"The 95 % interval of the difference to training from scratch, over seeds and test texts, is {low} to {high}"
        in text
    )
    assert "± is the standard deviation over 5 seeds." in text


def test_where_the_gain_is_largest():
    found = headline(make_results(spread=0.002))
    assert found.startswith("With all N,N labels, pre-training adds")
    assert found.endswith("The gain is largest with N labels: N ± N points, N above TF-IDF.")
    assert "with 100 labels" in format_verdict(make_results(spread=0.002))


def test_help_elsewhere_than_at_the_largest_budget():
    values = accuracies(0.8, 0.8, 0.8)
    values["scratch"] = {"100": 0.55, "400": 0.7, "all": 0.8}
    values["tfidf"] = {"100": 0.9, "400": 0.8, "all": 0.8}
    found = headline(make_results(accuracy=values, spread=0.002))
    assert found.startswith("With all N,N labels, no difference")
    assert found.endswith("It does help with N labels: N ± N points over training from scratch, but N below TF-IDF.")


def test_no_word_of_another_budget_where_the_gain_is_smaller_or_chance():
    values = accuracies(0.85, 0.75, 0.8)
    values["scratch"] = {"100": 0.85, "400": 0.8, "all": 0.75}
    assert headline(make_results(accuracy=values, spread=0.002)).count("labels") == 1


@pytest.mark.parametrize(
    ("rival", "values", "words"),
    [
        (
            "tfidf",
            {"100": 0.9, "400": 0.95, "all": 0.8},
            "With 400 labels the pre-trained model is N points below TF-IDF.",
        ),
        ("tfidf", {"100": 0.8, "400": 0.82, "all": 0.8}, None),
        (
            "scratch",
            {"100": 0.94, "400": 0.8, "all": 0.75},
            "With 100 labels the pre-trained model is N points below training from scratch.",
        ),
    ],
)
def test_the_worst_loss_at_another_budget_is_said(rival, values, words):
    accuracy = {**accuracies(0.85, 0.75, 0.8), rival: values}
    results = make_results(accuracy=accuracy, spread=0.002)
    found = judge(results, compute_statistics(results)).headline
    last = re.sub(r"\d+\.\d", "N", found[found.rindex("With") :])
    assert last == words or (words is None and found.count("With") == 1)


def test_a_loss_that_was_said_is_not_said_twice():
    accuracy = accuracies(0.8, 0.8, 0.8)
    accuracy["scratch"] = {"100": 0.55, "400": 0.8, "all": 0.8}
    accuracy["tfidf"] = {"100": 0.9, "400": 0.8, "all": 0.8}
    found = format_verdict(make_results(accuracy=accuracy, spread=0.002))
    assert found.count("below") == 1


def test_an_uncertain_difference_to_tfidf_is_given_where_the_gain_is_largest():
    accuracy = accuracies(0.8, 0.75, 0.7)
    accuracy["scratch"] = {"100": 0.55, "400": 0.75, "all": 0.75}
    results = make_results(accuracy=accuracy, spread=0.002)
    statistics = compute_statistics(results)
    for difference in statistics["differences"]:
        if (difference["rival"], difference["budget"]) == ("tfidf", "100"):
            difference.update(mean=0.03, low=-0.01, high=0.07)
    assert judge(results, statistics).headline.endswith(" points, where it cannot be told from TF-IDF (+3.0 points).")


def test_every_spread_is_explained():
    level = accuracies(0.8, 0.8, 0.8)
    level["scratch"] = {"100": 0.55, "400": 0.7, "all": 0.8}
    alone = make_results(["frozen", "pretrained"], seeds=3)
    for results in (make_results(accuracy=level, spread=0.002, seeds=3), alone):
        verdict = judge(results, compute_statistics(results))
        assert "±" in verdict.headline
        assert verdict.notes[-1] == "± is the standard deviation over 3 seeds."
    without = make_results(["tfidf", "pretrained"], seeds=3)
    assert "±" not in format_verdict(without)


def test_overlap_that_was_kept_is_a_warning():
    results = make_results(seeds=3)
    assert "--keep_overlap" not in format_verdict(results)
    results["settings"]["keep_overlap"] = True
    assert judge(results, compute_statistics(results)).warnings == [
        "Texts that stand in two parts were kept (--keep_overlap): 45 of train stand in test and 10 of validation "
        "stand in test, exactly or nearly. All accuracies may be too high."
    ]
    results["data"]["overlap"]["leaks"] = []
    assert "--keep_overlap" not in format_verdict(results)


def test_scratch_that_ends_at_its_best_is_a_warning():
    results = make_results(seeds=3)
    for run in results["runs"]:
        if run["method"] == "scratch" and (run["budget"], run["seed"]) in {("100", 0), ("100", 2), ("400", 1)}:
            run["best_epoch"] = 8
    assert judge(results, compute_statistics(results)).warnings == [
        "From scratch, the kept epoch is the last one in most runs with 100 labels: training may have been stopped "
        "early, and the gain may be smaller with more --num_train_epochs."
    ]


def test_one_seed_has_no_spread_and_says_so():
    verdict = judge(results := make_results(seeds=1), compute_statistics(results))
    assert "±" not in verdict.headline
    assert verdict.warnings == [
        "There is one seed: the spread over seeds is unknown, and another seed may give another result."
    ]
    assert re.fullmatch(r"The 95 % interval .*, over test texts, is \S+ to \S+ points\.", verdict.notes[0])


def test_two_seeds_are_few():
    verdict = judge(results := make_results(seeds=2), compute_statistics(results))
    assert verdict.warnings == [
        "There are two seeds only: the spread over seeds, and so the interval, is a rough guess."
    ]
    three = make_results(seeds=3)
    assert judge(three, compute_statistics(three)).warnings == []


@pytest.mark.parametrize(
    ("methods", "words", "warning"),
    [
        (["scratch", "pretrained"], "With all N,N labels, pre-training adds N ± N points over", "TF-IDF"),
        (["tfidf", "pretrained"], "With all N,N labels, the pre-trained model is N points above", "from scratch"),
        (
            ["frozen", "pretrained"],
            "With all N,N labels, the pre-trained model reaches N ± N %. What pre-training adds is not known: neither "
            "training from scratch nor TF-IDF has a run to compare with.",
            "TF-IDF and from scratch",
        ),
        (
            ["majority", "scratch"],
            "What pre-training adds is not known: the pre-trained model has no finished run. The best accuracy so far "
            "is N ± N %: from scratch, all N,N labels.",
            "TF-IDF",
        ),
    ],
)  # fmt: skip
def test_methods_that_were_not_asked_for(methods, words, warning):
    results = make_results(methods, spread=0.002)
    assert headline(results).startswith(words)
    assert f"Not run: {warning}." in judge(results, compute_statistics(results)).warnings


def test_unfinished():
    results = make_results(seeds=3, spread=0.002)
    runs = len(results["runs"])
    results = remove_runs(results, method="scratch", budget="all")
    verdict = judge(results, compute_statistics(results))
    assert verdict.headline.startswith("With 400 labels, pre-training adds")
    assert f"3 of {runs} runs are not finished: this is what stands so far." in verdict.warnings
    empty = {**results, "runs": []}
    assert format_verdict(empty).startswith("No run is finished yet.")


def test_no_better_than_the_majority_class_is_said():
    level = make_results(budgets=["400"], accuracy=accuracies(0.5, 0.5, 0.5))
    assert "The pre-trained model cannot be told from always answering the most frequent class, 50.0 ± 0.0 %." in (
        format_verdict(level)
    )
    below = make_results(METHODS, ["400"], accuracy=accuracies(0.3, 0.3, 0.3))
    assert "The pre-trained model is below always answering the most frequent class" in format_verdict(below)
    assert "most frequent" not in format_verdict(make_results())


def test_an_interval_without_zero_is_no_claim_where_the_test_doubts():
    results = make_results(["scratch", "pretrained"], ["400"], seeds=3)
    statistics = compute_statistics(results)
    statistics["differences"][0].update(mean=0.012, low=0.001, high=0.024, p=0.0712)
    assert judge(results, statistics).headline.endswith(
        "chance (+1.2 points, 95 % interval +0.1 to +2.4, but p = 0.071)."
    )


def test_a_difference_that_is_not_zero_is_not_written_as_zero():
    results = make_results(budgets=["400"], seeds=3)
    statistics = compute_statistics(results)
    for difference in statistics["differences"]:
        difference.update(mean=0.0003, low=0.0001, high=0.0005, p=0.01, sd=None)
    assert "adds 0.03 points" in judge(results, statistics).headline
