"""A split loses no row, shares no text, and leaves each class on both sides where it can."""

from __future__ import annotations

import pytest
from greffe.train.labels import collect_labels, count_labels, encode_labels
from greffe.train.overlap import normalise_text
from greffe.train.splitting import split_validation
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_texts import make_labelled

TEXTS = st.sampled_from([f"texte {number}" for number in range(12)] + ["Texte  1", "TEXTE 2"])
CLASSES = st.sampled_from("abcd")
ROWS = st.lists(st.tuples(TEXTS, CLASSES), min_size=8, max_size=60)


def distinct(labels, task="single_label"):
    return make_labelled([f"texte {row}" for row in range(len(labels))], labels, task)


def split_or_none(data, fraction, seed):
    try:
        return split_validation(data, fraction, seed)
    except ValueError as error:
        assert "expected at least two texts of a class" in str(error)  # noqa: PT017
        return None


def check_sides(data, train, validation) -> None:
    assert sorted(train.numbers + validation.numbers) == data.numbers
    assert train.numbers == sorted(train.numbers)
    assert validation.numbers == sorted(validation.numbers)
    shared = set(map(normalise_text, train.texts)) & set(map(normalise_text, validation.texts))
    assert not shared
    assert set(count_labels(train)) == set(count_labels(data))


@settings(deadline=None)
@given(ROWS, st.floats(0.05, 0.95), st.integers(0, 5))
def test_any_rows(rows, fraction, seed):
    data = make_labelled([text for text, _ in rows], [label for _, label in rows])
    sides = split_or_none(data, fraction, seed)
    if sides:
        check_sides(data, *sides)
        assert sides == split_validation(data, fraction, seed)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sets(CLASSES)), min_size=8, max_size=40), st.floats(0.05, 0.95))
def test_any_rows_of_several_labels(rows, fraction):
    data = make_labelled([text for text, _ in rows], [tuple(sorted(label)) for _, label in rows], "multi_label")
    sides = split_or_none(data, fraction, 0)
    if sides:
        check_sides(data, *sides)


@settings(deadline=None)
@given(st.lists(CLASSES, min_size=10, max_size=80), st.floats(0.1, 0.9))
def test_each_class_gives_its_share_when_texts_are_distinct(labels, fraction):
    data = distinct(labels)
    sides = split_or_none(data, fraction, 0)
    counts = count_labels(data)
    if sides is None:
        assert max(counts.values()) == 1
        return
    held_out = count_labels(sides[1])
    for name, rows in counts.items():
        if rows == 1:
            assert name not in held_out
        else:
            wanted = min(max(fraction * rows, 1), rows - 1)
            assert abs(held_out[name] - wanted) <= 0.5 + 1e-9


def test_seeds_draw_different_rows_and_a_large_copy_does_not_swamp_a_class():
    data = distinct(["a"] * 50 + ["b"] * 50)
    draws = {tuple(split_validation(data, 0.2, seed)[1].numbers) for seed in range(5)}
    assert len(draws) == 5
    copies = make_labelled(["le même"] * 90 + [f"texte {row}" for row in range(30)], ["a"] * 100 + ["b"] * 20)
    for seed in range(10):
        assert len(split_validation(copies, 0.1, seed)[1]) <= 14
    copies = make_labelled(["le même"] * 90 + ["un autre"] * 4 + ["c", "d"], ["a"] * 94 + ["b"] * 2)
    for seed in range(10):
        assert count_labels(split_validation(copies, 0.01, seed)[1]) == {"a": 4, "b": 1}


def test_a_label_that_stands_beside_others_only_is_trained_on():
    data = distinct([("p", "x"), ("p",), ("q", "x"), ("q",)], "multi_label")
    for seed in range(20):
        train, validation = split_validation(data, 0.5, seed)
        assert set(count_labels(train)) == {"p", "q", "x"}
        assert len(validation) in (1, 2)


def test_a_regression_is_split_over_its_range():
    data = distinct([float(row) for row in range(100)], "regression")
    train, validation = split_validation(data, 0.2, 0)
    assert len(validation) == 20
    assert {int(label) // 10 for label in validation.labels} == set(range(10))
    assert len(train) == 80
    train, validation = split_validation(data, 0.99, 0)
    assert {int(label) // 10 for label in train.labels} == set(range(10))


def test_the_sides_encode_with_the_labels_of_the_whole():
    data = distinct(["seul", *"aabbb"])
    train, validation = split_validation(data, 0.3, 1)
    assert "seul" in train.labels
    assert len(encode_labels(validation, collect_labels(train))) == len(validation) == 2


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 20])
def test_fractions(fraction):
    with pytest.raises(ValueError, match=f"expected a validation fraction between 0 and 1, found {fraction}"):
        split_validation(distinct("aabb"), fraction, 0)


def test_too_few_texts():
    with pytest.raises(ValueError, match=r"found 1 different texts in 3 rows; pass --validation with a file"):
        split_validation(make_labelled(["a", "A", " a"], "xyx"), 0.5, 0)
