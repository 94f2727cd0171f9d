"""Predictions as JSON and as HTML, for every task; no text or label of a model is taken for markup."""

from greffe.inference import Prediction
from greffe.inference.explanation import Explanation, Part
from greffe.inference.server.app import describe_prediction
from greffe.inference.server.rendering import (
    render_counts,
    render_empty,
    render_explanation,
    render_head,
    render_prediction,
)

EVIL = "<script>alert('x')</script>"
ONE = Prediction(("b",), {"a": 0.25, "b": 0.75})
SEVERAL = Prediction((), {"a": 0.25, EVIL: 0.45})
NUMBER = Prediction((), {}, 3.14159)


def test_json_of_every_task() -> None:
    assert describe_prediction(ONE, 1) == {"labels": ["b"], "probabilities": {"b": 0.75}}
    assert list(describe_prediction(ONE, 5)["probabilities"]) == ["b", "a"]
    assert describe_prediction(SEVERAL, 1) == {"labels": [], "probabilities": {EVIL: 0.45}}
    assert describe_prediction(NUMBER, 1) == {"value": 3.14159}


def test_html_of_every_task() -> None:
    one = render_prediction("Prediction", ONE)
    assert '<div class="greffe-answer">b</div>' in one
    assert one.index("75.0%") < one.index("25.0%")
    assert "width:75.00%" in one
    assert "none of the labels" in render_prediction("Prediction", SEVERAL)
    assert "3.142" in render_prediction("Prediction", NUMBER)
    counted = render_counts("File", 4, {"a": 1, "": 3})
    assert counted.index("none") < counted.index("<b>a</b>")
    assert "width:75.00%" in counted


def test_markup_is_text() -> None:
    evil = Prediction((EVIL,), {EVIL: 1.0})
    pages = [
        render_prediction(EVIL, evil),
        render_counts(EVIL, 1, {EVIL: 1}),
        render_explanation(EVIL, Explanation(EVIL, EVIL, evil, [Part(EVIL, 1.0)], "leave_one_out")),
        render_head(EVIL, EVIL),
        render_empty(EVIL, EVIL),
    ]
    for page in pages:
        assert "<script" not in page
        assert "&lt;script" in page
