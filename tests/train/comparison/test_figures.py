"""Figures: whole, the same each time, in colours that a theme can change, and without a trace in matplotlib."""

import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from comparison_results import make_results, remove_runs
from greffe.train.comparison.figure_axes import spread_apart
from greffe.train.comparison.figure_confusion import mean_confusion, share_of_class
from greffe.train.comparison.figure_epochs import choose_epochs, mean_curve
from greffe.train.comparison.figures import draw_figures
from greffe.train.comparison.inline_svg import inline_svg
from greffe.train.comparison.palette import COLOURS, SETTINGS
from greffe.train.comparison.statistics import compute_statistics

NAMES = ["accuracy-by-epoch", "accuracy-by-labels", "differences", "confusion", "parameters"]
HOSTILE = "</text><script>alert(1)</script> $x^2$ & \"'"


def draw(results):
    return draw_figures(results, compute_statistics(results))


@pytest.fixture(scope="module")
def drawings():
    return draw(make_results())


def test_all_are_drawn_and_described(drawings):
    assert [drawing.name for drawing in drawings] == NAMES
    for drawing in drawings:
        assert drawing.png.startswith(b"\x89PNG")
        assert int.from_bytes(drawing.png[16:20]) == 960  # pixels across
        assert re.search(r"\d", drawing.description)
        ElementTree.fromstring(drawing.svg)


def test_the_same_bytes_each_time_and_no_setting_changed(drawings):
    before = {name: matplotlib.rcParams[name] for name in SETTINGS}
    again = draw(make_results())
    assert {name: matplotlib.rcParams[name] for name in SETTINGS} == before
    assert again == drawings


def test_every_colour_is_a_role_of_the_palette(drawings):
    """A colour that is none would stay as it is in the dark theme."""
    for drawing in drawings:
        page = inline_svg(drawing.svg, drawing.name, drawing.description)
        tags = "".join(re.findall(r"<[^>]*>", page))
        assert re.findall(r"(?:fill|stroke|color): ?(?!none|var\()[^;\"]+", tags) == []
        assert set(re.findall(r"var\(--([a-z-]+)\)", page)) <= set(COLOURS)
        assert "var(--ink)" in page


def test_names_in_a_page_do_not_meet(drawings):
    page = "".join(inline_svg(drawing.svg, drawing.name, drawing.description) for drawing in drawings)
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names)) > 100
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)
    assert {first or second for first, second in used} <= set(names)
    assert len(used) > 20


def test_type_is_large_enough_for_a_phone(drawings):
    """The figures are 345.6 wide in their own unit, and a phone gives them about as many pixels."""
    for drawing in drawings:
        assert re.search(r'viewBox="0 0 345\.6 [\d.]+"', drawing.svg)
        sizes = [float(size) for size in re.findall(r"font: (?:bold )?([\d.]+)px", drawing.svg)]
        assert sizes
        assert min(sizes) >= 8


def test_labels_are_text_and_nothing_else():
    results = make_results(labels=[HOSTILE, "$a_b$"])
    svg = next(drawing for drawing in draw(results) if drawing.name == "confusion").svg
    words = ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "$a_b$" in words
    page = inline_svg(svg, "confusion", HOSTILE)
    assert "<script" not in page
    assert 'aria-label="&lt;/text&gt;&lt;script&gt;' in page


@pytest.mark.parametrize("classes", [2, 3, 4, 10, 15])
def test_any_number_of_classes(classes):
    results = make_results(["tfidf", "scratch", "pretrained"], ["all"], 1, [f"label {n}" for n in range(classes)])
    confusion = [drawing for drawing in draw(results) if drawing.name.startswith("confusion")]
    each = ["confusion-scratch", "confusion-pretrained", "confusion-tfidf"]
    assert [drawing.name for drawing in confusion] == (["confusion"] if classes < 4 else each)
    for drawing in confusion:
        assert f"label {classes - 1}" in drawing.svg


def test_what_cannot_be_drawn_is_left_out():
    names = [drawing.name for drawing in draw(make_results(["majority", "tfidf"], ["400"], 1))]
    assert names == ["accuracy-by-labels", "confusion", "parameters"]
    empty = {**make_results(seeds=1), "runs": []}
    assert [drawing.name for drawing in draw(empty)] == ["parameters"]


def test_runs_of_different_lengths_and_missing_ones():
    results = make_results(seeds=2)
    results = remove_runs(results, method="pretrained", budget="all", seed=1)
    results = remove_runs(results, method="scratch", budget="100")
    for run in results["runs"]:
        if run["seed"] == 1:
            run["epochs"] = run["epochs"][:3]
    assert [drawing.name for drawing in draw(results)] == NAMES


def test_mean_curve_ends_where_the_first_run_ends():
    long = [{"epoch": epoch, "accuracy": accuracy} for epoch, accuracy in enumerate([0.5, 0.7, 0.8], 1)]
    epochs, mean, spread = mean_curve([long, [{"epoch": 1, "accuracy": 0.6}, {"epoch": 2, "accuracy": 0.7}]])
    assert epochs == [1, 2]
    assert mean.tolist() == pytest.approx([0.55, 0.7])
    assert spread.tolist() == pytest.approx([0.1 / 2**0.5, 0])


@pytest.mark.parametrize(
    ("last", "expected"),
    [(1, [1]), (8, [1, 2, 3, 4, 5, 6, 7, 8]), (12, [1, 5, 10]), (100, [1, 20, 40, 60, 80, 100])],
)
def test_epochs_on_the_axis(last, expected):
    assert choose_epochs(last) == expected


def test_one_seed_is_not_called_a_mean():
    for drawing in draw(make_results(["tfidf", "scratch", "pretrained"], ["400"], 1))[:2]:
        assert "one seed" in drawing.reading
        assert "deviation" not in drawing.reading


def test_confusion_is_the_mean_over_runs_as_shares_of_the_true_class():
    runs = [
        {"test": {"confusion_matrix": matrix}}
        for matrix in ([[8, 2, 0], [1, 3, 0], [0, 0, 0]], [[6, 4, 0], [3, 1, 0], [0, 0, 0]])
    ]
    shares = share_of_class(mean_confusion(runs))
    assert shares[:2].tolist() == [[0.7, 0.3, 0], [0.5, 0.5, 0]]
    assert np.isnan(shares[2]).all()


@pytest.mark.parametrize(
    ("heights", "gap", "expected"),
    [
        ([0.9, 0.1, 0.5], 0.1, [0.9, 0.1, 0.5]),  # nothing to move
        ([0.5, 0.5], 0.2, [0.4, 0.6]),
        ([0.52, 0.5, 0.9], 0.1, [0.56, 0.46, 0.9]),
        ([0.5, 0.5, 0.5], 0.1, [0.4, 0.5, 0.6]),
        ([], 0.1, []),
    ],
)
def test_names_are_moved_apart_as_little_as_possible(heights, gap, expected):
    assert spread_apart(heights, gap) == pytest.approx(expected)
