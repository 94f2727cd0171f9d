"""Copies are found by a plain comparison of every pair, and by the fast one, alike."""

from __future__ import annotations

import random
import re

import pytest
from greffe.train import overlap
from greffe.train.overlap import find_duplicates, find_overlap, normalise_text, remove_overlap
from hypothesis import given, settings
from hypothesis import strategies as st
from invented_text import make_documents
from labelled_texts import make_labelled

REVIEW = (
    "J'ai lu ce livre en deux jours et je le conseille à tous ceux qui aiment les longs voyages en mer, car l'auteur "
    "sait de quoi il parle et ne se perd jamais en chemin."
)


def reword(text: str, *places: int) -> str:
    """The text with the words at some places replaced by others."""
    words = text.split()
    for place in places:
        words[place] = f"autre{place}"
    return " ".join(words)


def pairs(matches) -> list[tuple[int, int]]:
    return [(match.row, match.other) for match in matches]


def share_in_common(text: str, other: str) -> float:
    """What `find_overlap` calls near, written plainly with sets."""

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[^\W_]+", normalise_text(text))
        return {tuple(words[start : start + 5]) for start in range(max(len(words) - 4, 1))} if words else set()

    smaller, larger = sorted((shingles(text), shingles(other)), key=len)
    if len(smaller) < 20:
        return float(bool(smaller) and smaller == larger)
    share = len(smaller & larger) / len(smaller)
    return share if share >= 0.6 else 0.0


class TestExact:
    def test_case_spaces_and_ways_to_write_a_character_do_not_count(self):
        train = ["L'été  à la\u00a0mer\n", "L'e\u0301te\u0301 a\u0300 la mer", "l'été à la mer !", "autre"]
        found = find_overlap(train, ["rien", "L'ÉTÉ À LA MER", "l'été à la mer"])
        assert pairs(found.exact) == [(0, 1), (1, 1)]
        assert pairs(found.near) == [(2, 1)]
        assert found.rows == [0, 1, 2]

    def test_short_texts_that_punctuation_alone_tells_apart_are_near_and_others_are_not(self):
        assert pairs(find_duplicates(["Très bon.", "très bon !", "très bon livre", "très"]).near) == [(1, 0)]

    def test_blank_texts_are_no_copies_and_signs_alone_are_as_they_stand(self):
        assert find_duplicates(["", " ", "\n", "!!!", "???"]).rows == []
        assert find_overlap(["", "!!!", "???"], ["", "!!!", "…"]).rows == [1]
        assert find_overlap([], ["a"]).rows == find_overlap(["a"], []).rows == find_duplicates([]).rows == []

    def test_duplicates_repeat_the_first(self):
        assert pairs(find_duplicates(["a b", "c", "A B", "a  b"]).exact) == [(2, 0), (3, 0)]


class TestNear:
    def test_a_copy_that_was_cut_added_to_or_reworded(self):
        words = REVIEW.split()
        copies = [
            " ".join(words[:26]),
            f"Bonjour. {REVIEW} Voilà ce que j'avais à en dire, et bien plus.",
            reword(REVIEW, 12),
        ]
        found = find_overlap([*copies, reword(REVIEW, 4, 9, 14, 19, 24)], ["autre chose", REVIEW])
        assert found.exact == []
        assert pairs(found.near) == [(0, 1), (1, 1), (2, 1)]
        assert [match.similarity for match in found.near][:2] == [1.0, 1.0]
        assert 0.6 <= found.near[2].similarity < 1

    def test_a_set_phrase_inside_a_long_text_is_no_copy(self):
        phrase = "je le conseille à tous ceux qui aiment les longs voyages en mer"
        assert phrase in REVIEW
        assert find_overlap([phrase], [REVIEW]).rows == []

    def test_the_most_alike_is_given_and_the_first_of_equals(self):
        others = [reword(REVIEW, 3), REVIEW.replace("chemin", "route"), REVIEW.replace("chemin", "vue"), "x"]
        found = find_overlap([REVIEW.replace(",", " ,;")], others)
        assert pairs(found.near) == [(0, 1)]

    def test_characters_are_words_where_no_spaces_are(self):
        text = "我昨天买了这本书一口气读完觉得非常精彩作者的文笔很好推荐给大家阅读"
        assert pairs(find_overlap([text + "谢谢"], ["别的", text]).near) == [(0, 1)]

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 70))
    def test_as_a_plain_comparison_of_all_pairs_finds_them(self, seed, chunk):
        draw = random.Random(seed)
        vocabulary = ["la", "mer", "où", "va", "ce", "beau", "livre"]
        sources = [draw.choices(vocabulary, k=draw.choice([2, 4, 17, 24, 30, 60])) for _ in range(4)]
        texts = [
            " ".join(
                draw.choice(vocabulary) if draw.random() < 0.05 else word
                for word in draw.choice(sources)[: draw.choice([4, 16, 28, 99])]
            )
            for _ in range(70)
        ]
        train, other = texts[:40], texts[40:]
        pieces, overlap._CHUNK = overlap._CHUNK, chunk
        try:
            found, within = find_overlap(train, other), find_duplicates(train)
        finally:
            overlap._CHUNK = pieces
        shares = [[share_in_common(text, twin) for twin in other] for text in train]
        assert {match.row for match in found.exact} == {row for row, text in enumerate(train) if text in other}
        exact = {match.row for match in found.exact}
        assert [(match.row, match.other, match.similarity) for match in found.near] == [
            (row, share.index(max(share)), max(share))
            for row, share in enumerate(shares)
            if max(share) and row not in exact
        ]
        assert within.rows == [
            row for row, text in enumerate(train)
            if any(text == twin or share_in_common(text, twin) for twin in train[:row])
        ]  # fmt: skip

    def test_more_copies_than_are_looked_at_are_found_all(self):
        copies = [f"{REVIEW} Écrit le {day} par le lecteur {day}." for day in range(3 * overlap._CANDIDATES)]
        assert len(find_duplicates(copies).near) == len(copies) - 1
        assert len(find_overlap(copies, [*copies[1:], "x"]).near) == 1

    def test_a_phrase_that_many_texts_have_counts_where_the_rest_is_alike(self):
        others = [
            f"{REVIEW} " + " ".join(f"mot{number}x{place}" for place in range(40))
            for number in range(2 * overlap._CANDIDATES)
        ]
        twins = [
            f"{REVIEW} Un vrai plaisir de lecture pour les soirs de pluie à {place}" for place in ("Brest", "Nice")
        ]
        assert share_in_common(*twins) > 0.9
        assert pairs(find_overlap(twins[:1], [*others, twins[1]]).near) == [(0, len(others))]


def test_the_order_of_the_rows_does_not_change_what_is_found():
    documents = make_documents(400)
    texts = [" ".join(documents[start : start + 5]) for start in range(0, 400, 5)]
    other = [f"{text} fin" for text in texts[:20]] + texts[20:25]
    rows = find_overlap(texts, other).rows
    assert rows == list(range(25))
    order = random.Random(1).sample(range(len(texts)), len(texts))
    assert sorted(order[row] for row in find_overlap([texts[row] for row in order], other[::-1]).rows) == rows


def test_removing_the_overlap_leaves_none():
    train = make_labelled(["seul", REVIEW, "aussi", "Seul aussi", reword(REVIEW, 12)], "abaab")
    valid, test = make_labelled(["AUSSI"], "a", file="v.csv"), make_labelled([REVIEW.upper()], "b", file="t.csv")
    kept = remove_overlap(train, [valid, test])
    assert (kept.texts, kept.numbers) == (["seul", "Seul aussi"], [2, 5])
    assert find_overlap(kept.texts, valid.texts + test.texts).rows == []
    assert remove_overlap(train, []) == train
    with pytest.raises(ValueError, match=r"found each of its 1 rows in v.csv or t.csv too; give other files"):
        remove_overlap(train.select([2]), [valid, test])
