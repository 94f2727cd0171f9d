"""Figures: whole, the same each time, in colours that a theme can change, and without a trace in matplotlib."""

import io
import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from comparison_results import make_results, remove_runs
from greffe.train.comparison.figure_axes import spread_apart
from greffe.train.comparison.figure_budgets import draw_budgets
from greffe.train.comparison.figure_confusion import draw_confusion, mean_confusion, share_of_class
from greffe.train.comparison.figure_differences import draw_differences
from greffe.train.comparison.figure_epochs import choose_epochs, draw_epochs, mean_curve
from greffe.train.comparison.figures import draw_figures
from greffe.train.comparison.inline_svg import inline_svg
from greffe.train.comparison.palette import COLOURS, SETTINGS
from greffe.train.comparison.statistics import compute_statistics
from greffe.train.comparison.words import name_budget
from matplotlib import rc_context

NAMES = ["accuracy-by-epoch", "accuracy-by-labels", "differences", "confusion", "parameters"]
HOSTILE = "</text><script>alert(1)</script> $x^2$ & \"'"


def draw(results):
    return draw_figures(results, compute_statistics(results))


@pytest.fixture
def settings():
    with rc_context(SETTINGS):
        yield


@pytest.fixture(scope="module")
def drawings():
    return draw(make_results(seeds=2, rows=200))


def test_all_are_drawn_and_described(drawings):
    assert [drawing.name for drawing in drawings] == NAMES
    for drawing in drawings:
        assert drawing.png.startswith(b"\x89PNG")
        assert int.from_bytes(drawing.png[16:20], "big") == 960  # pixels across
        assert re.search(r"\d", drawing.description)
        ElementTree.fromstring(drawing.svg)


def test_no_setting_of_matplotlib_is_changed():
    before = {name: matplotlib.rcParams[name] for name in SETTINGS}
    assert before["svg.fonttype"] != SETTINGS["svg.fonttype"]
    assert len(draw({**make_results(seeds=1, rows=200), "runs": []})) == 1
    assert {name: matplotlib.rcParams[name] for name in SETTINGS} == before


def test_every_colour_is_a_role_of_the_palette(drawings):
    """A colour that is none would stay as it is in the dark theme."""
    for drawing in drawings:
        page = inline_svg(drawing.svg, drawing.name, drawing.description)
        tags = "".join(re.findall(r"<[^>]*>", page))
        colours = set(re.findall(r"(?:fill|stroke|color):\s*([^;\"]+)", tags))
        assert {colour for colour in colours if not colour.startswith("var(--")} <= {"none"}
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
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:[a-z0-9]+ )*?([\d.]+)px", drawing.svg)]
        assert sizes
        assert min(sizes) >= 8


@pytest.mark.usefixtures("settings")
def test_labels_are_text_and_nothing_else():
    results = make_results(["pretrained"], ["all"], 1, labels=[HOSTILE, "$a_b$"], rows=200)
    (sketch,) = draw_confusion(results, {})
    file = io.BytesIO()
    sketch.figure.savefig(file, format="svg")
    svg = file.getvalue().decode()
    words = ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "$a_b$" in words
    page = inline_svg(svg, "confusion", HOSTILE)
    assert "<script" not in page
    assert 'aria-label="&lt;/text&gt;&lt;script&gt;' in page


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(("classes", "numbers"), [(2, 2), (3, 2), (5, 2), (6, 1), (15, 1), (25, 0)])
def test_any_number_of_classes(classes, numbers):
    labels = [f"label {n}" for n in range(classes)]
    sketches = draw_confusion(make_results(["tfidf", "pretrained"], ["all"], 1, labels, rows=200), {})
    assert [sketch.part for sketch in sketches] == ([""] if classes < 3 else ["pretrained", "tfidf"])
    for sketch in sketches:
        assert [text.get_text() for text in sketch.figure.axes[0].get_yticklabels()] == labels
        for axes in sketch.figure.axes:
            assert len(axes.patches) == classes**2
            assert len(axes.texts) == numbers * classes**2


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("number", [1, 2, 3, 4, 6])
def test_any_number_of_budgets(number):
    budgets = [*(str(25 * 2**power) for power in range(number - 1)), "all"]
    accuracy = {method: dict.fromkeys(budgets, 0.7) for method in ("tfidf", "scratch", "pretrained")}
    results = make_results(list(accuracy), budgets, 1, accuracy=accuracy, rows=200)
    statistics = compute_statistics(results)
    (epochs,), (labels,), (differences,) = (
        draw_it(results, statistics) for draw_it in (draw_epochs, draw_budgets, draw_differences)
    )
    assert [axes.get_title(loc="left") for axes in epochs.figure.axes] == [
        name_budget(results, budget) for budget in reversed(budgets)
    ]
    assert len(differences.figure.axes[0].get_yticklabels()) == 2 * number
    expected = "Accuracy with all 1,555 labels" if number == 1 else "Accuracy by number of labels"
    assert labels.title == expected


def test_what_cannot_be_drawn_is_left_out():
    names = [drawing.name for drawing in draw(make_results(["majority", "tfidf"], ["400"], 1, rows=200))]
    assert names == ["accuracy-by-labels", "confusion", "parameters"]


def test_runs_of_different_lengths_and_missing_ones():
    results = make_results(["tfidf", "scratch", "pretrained"], seeds=2, rows=200)
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


@pytest.mark.usefixtures("settings")
def test_one_seed_is_not_called_a_mean():
    results = make_results(["tfidf", "scratch", "pretrained"], ["400"], 1, rows=200)
    for draw_it in (draw_epochs, draw_budgets):
        (sketch,) = draw_it(results, compute_statistics(results))
        assert "one seed" in sketch.reading
        assert "deviation" not in sketch.reading


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
