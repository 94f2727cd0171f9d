"""What is kept of a long text."""

from __future__ import annotations

import pytest
from greffe.train.truncation import truncate_all, truncate_ids
from hypothesis import given, settings
from hypothesis import strategies as st

BOS = 0
KEEP = st.sampled_from(["head", "tail", "both"])


@pytest.mark.parametrize(
    ("keep", "expected"), [("head", [0, 1, 2, 3, 4]), ("tail", [0, 6, 7, 8, 9]), ("both", [0, 1, 2, 8, 9])]
)
def test_ends(keep, expected):
    assert truncate_ids(range(10), 5, keep, BOS) == expected


def test_odd_room_and_no_beginning():
    assert truncate_ids(range(10), 6, "both", BOS) == [0, 1, 2, 3, 8, 9]
    assert truncate_ids(range(10), 3, "both") == [0, 1, 9]
    assert truncate_ids(range(10), 2, "tail") == [8, 9]
    assert truncate_ids([5, 6, 7], 2, "tail", BOS) == [6, 7]
    assert truncate_ids([0, 6, 7], 2, "both", BOS) == [0, 6]


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), max_size=60, unique=True), st.integers(2, 40), KEEP, st.booleans())
def test_any_text(body, max_length, keep, has_bos):
    ids = [BOS, *body] if has_bos else body
    kept = truncate_ids(ids, max_length, keep, BOS)
    assert len(kept) == min(len(ids), max_length)
    assert [token for token in ids if token in kept] == kept  # in their order, none invented
    if len(ids) <= max_length:
        assert kept == ids
        return
    if has_bos:
        assert kept[0] == BOS
    inner = kept[1:] if has_bos else kept
    if keep == "head":
        assert inner == body[: len(inner)]
    elif keep == "tail":
        assert inner == body[len(body) - len(inner) :]
    else:
        head = (len(inner) + 1) // 2
        assert inner == body[:head] + body[len(body) - (len(inner) - head) :]


def test_the_texts_that_had_to_be_cut_are_counted():
    texts = [[0, 1, 2, 3], [0, 1, 2], [0], []]
    assert truncate_all(texts, 3, "tail", BOS) == ([[0, 2, 3], [0, 1, 2], [0], []], 1)
    assert truncate_all(texts, 2, "head", BOS)[1] == 2
    assert texts[0] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("max_length", "keep", "bos", "message"),
    [
        (1, "head", BOS, "expected a maximal length of at least 2, to leave room for text, found 1"),
        (0, "head", None, "expected a maximal length of at least 1"),
        (5, "middle", None, r"expected truncation among \['head', 'tail', 'both'\], found 'middle'"),
    ],
)
def test_refused(max_length, keep, bos, message):
    with pytest.raises(ValueError, match=message):
        truncate_ids([1], max_length, keep, bos)
    with pytest.raises(ValueError, match=message):
        truncate_all([], max_length, keep, bos)
