"""The most confidently wrong texts."""

import numpy as np
from comparison_results import make_results
from greffe.train.comparison.wrong_texts import LONGEST, SHOWN, find_wrong_texts


def test_the_surest_mistakes_by_the_mean_over_seeds():
    results = make_results(seeds=3)
    runs = [run for run in results["runs"] if (run["method"], run["budget"]) == ("pretrained", "all")]
    rows = []
    for text, true, *probabilities in zip(
        results["test"]["texts"], results["test"]["labels"], *(run["predictions"] for run in runs), strict=True
    ):
        mean = np.mean(probabilities, axis=0)
        if mean.argmax() != true:
            rows.append((mean.max(), text, results["labels"][true], results["labels"][mean.argmax()]))
    expected = sorted(rows, reverse=True)[:SHOWN]
    found = find_wrong_texts(results)
    assert [(wrong.probability, wrong.text, wrong.true, wrong.predicted) for wrong in found] == expected
    assert len(found) == SHOWN


def test_texts_are_cut_at_a_word():
    results = make_results(seeds=1)
    results["test"]["texts"] = ["ab\x00c\n\n" + "mot " * 500] * len(results["test"]["texts"])
    text = find_wrong_texts(results)[0].text
    assert text.startswith("ab c mot mot")
    assert text.endswith("mot…")
    assert len(text) <= LONGEST


def test_none_where_all_is_right_or_nothing_was_run():
    results = make_results(["tfidf", "pretrained"], ["400"], seeds=1)
    run = results["runs"][1]
    run["predictions"] = [[1.0, 0.0] if label == 0 else [0.0, 1.0] for label in results["test"]["labels"]]
    assert find_wrong_texts(results) == []
    assert find_wrong_texts(make_results(["tfidf"])) == []
