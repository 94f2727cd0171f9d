"""Explanations: scores that sum to what they explain, point to what decides, and are shown on readable text."""

import io
import os
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from greffe.inference import Classifier, deletion_faithfulness, explain, explanation, load_classifier
from greffe.inference.explanation import Explanation, Method, Part, integrate_gradients, log_odds, score_tokens
from greffe.inference.explanation_report import explanation_fragment, explanation_page, format_explanation
from greffe.train.cli import main
from invented_text import make_documents
from trained_models import make_reviews, save_classifier, save_classifier_with_path

METHODS: list[Method] = ["integrated_gradients", "leave_one_out"]


def reviews(number: int, seed: int = 2) -> list[str]:
    return [row["text"] for row in make_reviews(number, seed)]


@pytest.mark.parametrize("pooling", ["mean", "last", "layers"])
def test_integrated_gradients_are_complete(tmp_path: Path, pooling: str) -> None:
    """The scores sum to the difference between the text and the empty one."""
    classifier = load_classifier(save_classifier(tmp_path / "model", steps=20, classifier_pooling=pooling))
    for ids in classifier.encode(reviews(4)):
        scores, difference = integrate_gradients(classifier, ids, target=1, steps=64)
        assert abs(difference) > 0.01
        assert sum(scores) == pytest.approx(difference, abs=0.005 * max(1, abs(difference)))
        assert scores[0] == 0  # <s>


THREE = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}


@pytest.mark.parametrize("labels", [{}, THREE], ids=["two labels", "three labels"])
@pytest.mark.parametrize("pooling", ["mean", "last", "layers"])
def test_a_path_of_ngrams_is_explained_too(tmp_path: Path, pooling: str, labels: dict[str, Any]) -> None:
    """All of it, as the difference is that of the model that predicts."""
    options = {**labels, "classifier_pooling": pooling}
    classifier = load_classifier(save_classifier_with_path(tmp_path / "model", **options))
    space = classifier.tokenizer(" ", add_special_tokens=False)["input_ids"][0]
    for ids in classifier.encode(reviews(4)):
        target = len(classifier.labels.names) - 1
        scores, difference = integrate_gradients(classifier, ids, target, steps=64)
        text, spaces = log_odds(classifier, classifier.logits([ids, [ids[0], *[space] * (len(ids) - 1)]]), target)
        assert difference == pytest.approx((text - spaces).item(), abs=1e-4)
        assert sum(scores) == pytest.approx(difference, abs=0.005 * max(1, abs(difference)))
        assert scores[0] == 0  # <s>, in whose n-grams the path has its part


def test_what_the_path_says_of_a_word_is_the_words(tmp_path: Path) -> None:
    """With a trunk that says nothing and two labels, the path's contributions are the scores."""
    classifier = load_classifier(save_classifier_with_path(tmp_path / "model"))
    model = classifier.model
    with torch.no_grad():
        model.score.weight.zero_()
    ids = classifier.encode(reviews(1))[0]
    space = classifier.tokenizer(" ", add_special_tokens=False)["input_ids"][0]
    with torch.no_grad():
        text, spaces = model.ngrams.contributions(torch.tensor([ids, [ids[0], *[space] * (len(ids) - 1)]]))
    change = (text - spaces) @ torch.tensor([-1.0, 1.0])  # the log-odds of the second label
    expected = change[1:] + change[0] / (len(ids) - 1)
    assert expected.std() > 0.01
    assert integrate_gradients(classifier, ids, target=1, steps=3)[0][1:] == pytest.approx(expected.tolist(), abs=1e-5)


def test_more_steps_come_closer(classifier: Classifier) -> None:
    def gap(steps: int) -> float:
        found = [integrate_gradients(classifier, ids, 0, steps) for ids in classifier.encode(reviews(5))]
        return sum(abs(sum(scores) - difference) for scores, difference in found)

    assert gap(32) < gap(2) / 3


@pytest.mark.parametrize("path", [False, True], ids=["trunk alone", "path of n-grams"])
def test_leave_one_out_is_the_fall_without_the_token(path: bool, classifier: Classifier, tmp_path: Path) -> None:
    if path:
        classifier = load_classifier(save_classifier_with_path(tmp_path / "model"))
    ids = classifier.encode(reviews(1))[0]
    scores = score_tokens(classifier, ids, 1, "leave_one_out")
    whole = log_odds(classifier, classifier.logits([ids]), 1)
    assert len(scores) == len(ids)
    assert scores[0] == 0
    for index in range(1, len(ids)):
        without = log_odds(classifier, classifier.logits([ids[:index] + ids[index + 1 :]]), 1)
        assert scores[index] == pytest.approx((whole - without).item(), abs=1e-4)


def test_log_odds(classifier: Classifier) -> None:
    logits = torch.randn(5, 4)
    shares = logits.softmax(-1)[:, 2]
    torch.testing.assert_close(log_odds(classifier, logits, 2), (shares / (1 - shares)).log(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_the_deciding_word_weighs_most(classifier: Classifier, method: Method) -> None:
    hits = 0
    for text in reviews(20):
        explained = explain(classifier, text, method=method)
        assert "".join(part.text for part in explained.parts) == text
        place, position = 0, text.index(" oui ") if " oui " in text else text.index(" non ")
        strongest = explained.top(1)[0]
        for part in explained.parts:
            if part is strongest:
                hits += position <= place < position + 4
            place += len(part.text)
    assert hits >= 16


@pytest.mark.parametrize("method", METHODS)
def test_faithful_and_more_so_than_chance(classifier: Classifier, method: Method) -> None:
    found = deletion_faithfulness(classifier, reviews(15), method, steps=16)
    assert found.texts == 15
    assert found.advantage > 0.1
    assert found == deletion_faithfulness(classifier, reviews(15), method, steps=16)


def test_reversed_explanations_are_unfaithful(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    from greffe.inference import faithfulness

    original = faithfulness.score_tokens
    monkeypatch.setattr(faithfulness, "score_tokens", lambda *options: [-score for score in original(*options)])
    assert deletion_faithfulness(classifier, reviews(15), "leave_one_out").advantage < 0


def test_faithfulness_by_hand(classifier: Classifier) -> None:
    text = "ba lo oui mi"
    ids = classifier.encode([text])[0]
    shares = classifier.predict([text])[0].probabilities
    target = max(range(2), key=lambda index: list(shares.values())[index])
    scores = score_tokens(classifier, ids, target, "leave_one_out")
    best = max(range(1, len(ids)), key=scores.__getitem__)
    after = classifier.probabilities(classifier.logits([ids[:best] + ids[best + 1 :]]))[0, target].item()
    found = deletion_faithfulness(classifier, [text], "leave_one_out", fractions=[0.01])
    assert found.drops == [pytest.approx(max(shares.values()) - after, abs=1e-6)]
    with pytest.raises(ValueError, match="expected texts of at least two tokens, found none"):
        deletion_faithfulness(classifier, ["", "a"])


def test_halves_of_characters_are_one_part(classifier: Classifier) -> None:
    text = "oui 👩🏽‍🚀日本 ñ fin"
    assert len(classifier.encode([text])[0]) <= classifier.max_length
    explained = explain(classifier, text)
    assert "".join(part.text for part in explained.parts) == text
    assert "👩" in [part.text.strip() for part in explained.parts]
    ids = classifier.encode([text])[0]
    assert len(explained.parts) < len(ids) - 1
    target = classifier.labels.names.index(explained.label)
    total = sum(score_tokens(classifier, ids, target, explained.method))  # type: ignore[arg-type]
    assert sum(part.score or 0 for part in explained.parts) == pytest.approx(total, abs=1e-5)


def test_what_was_cut_off_is_not_scored(classifier: Classifier) -> None:
    text = "oui " + " ".join(make_documents(10))
    explained = explain(classifier, text)
    assert "".join(part.text for part in explained.parts) == text
    unseen = [part.text for part in explained.parts if part.score is None]
    assert len(unseen) == 1  # the middle: `both` keeps the ends
    assert len(unseen[0]) > len(text) / 2
    assert explained.parts[0].score is not None
    assert explained.parts[-1].score is not None


@pytest.mark.parametrize("text", ["", "a", "   "])
def test_short_texts(classifier: Classifier, text: str, tmp_path: Path) -> None:
    with_path = load_classifier(save_classifier_with_path(tmp_path / "model", ngram_order=3))
    for explained in (classifier, with_path):
        for method in METHODS:
            assert "".join(part.text for part in explain(explained, text, method=method).parts) == text


def test_labels_can_be_chosen(classifier: Classifier) -> None:
    text = reviews(1)[0]
    one, other = (explain(classifier, text, label=label) for label in classifier.labels.names)
    scores = [(a.score or 0, b.score or 0) for a, b in zip(one.parts, other.parts, strict=True)]
    assert all(
        a == pytest.approx(-b, abs=1e-4) for a, b in scores
    )  # of two labels, what is for one is against the other
    with pytest.raises(ValueError, match=r"expected a label among \['négatif', 'positif'\], found 'neutre'"):
        explain(classifier, text, label="neutre")
    with pytest.raises(ValueError, match="expected a method among"):
        explain(classifier, text, method="magic")  # type: ignore[arg-type]


def test_several_labels_and_numbers(tmp_path: Path) -> None:
    several = save_classifier(tmp_path / "several", steps=0, problem_type="multi_label_classification")
    assert "log-odds" in format_explanation(explain(load_classifier(several), "oui non"), colour=False)
    one = {"id2label": {0: "stars"}, "label2id": {"stars": 0}, "problem_type": "regression"}
    number = explain(load_classifier(save_classifier(tmp_path / "one", steps=0, **one)), "oui non")
    assert format_explanation(number, colour=False).startswith("stars: ")


HOSTILE = "oui <script>alert('x')</script> & \x1b[31mrouge\x07 \"q\"\nligne"


def test_terminal(classifier: Classifier) -> None:
    explained = explain(classifier, HOSTILE)
    plain = format_explanation(explained, colour=False)
    assert "\x1b" not in plain
    coloured = format_explanation(explained, colour=True)
    assert "\x1b[30;48;5;" in coloured
    assert "\x1b[31m" not in coloured
    assert "\x07" not in coloured


class Visible(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page(classifier: Classifier) -> None:
    explained = explain(classifier, HOSTILE)
    explained = replace(
        explained, label="<b>x</b>", prediction=replace(explained.prediction, probabilities={"<b>x</b>": 1.0})
    )
    page = Visible()
    page.feed(explanation_page(explained))
    assert not page.tags & {"script", "b", "link", "img"}
    assert HOSTILE.split("\n")[0] in page.text
    assert "http" not in explanation_page(explained)
    strongest = max(explained.parts, key=lambda part: abs(part.score or 0))
    assert f'title="{strongest.score:+.3f}"' in explanation_fragment(explained)
    assert "/ 0.75)" in explanation_fragment(explained)


def test_nothing_scored_at_all(classifier: Classifier) -> None:
    prediction = classifier.predict([""])[0]
    empty = Explanation("", prediction.label, prediction, [Part("x", None)], "leave_one_out")
    assert "unseen" in explanation_fragment(empty)
    assert format_explanation(empty, colour=True)


def test_command(
    classifier_folder: Path, classifier: Classifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = reviews(1)[0]
    command = ["explain", str(classifier_folder), text, "--output", str(tmp_path / "page.html")]
    assert main(command) == 0
    expected = format_explanation(explain(classifier, text), colour=False)
    assert capsys.readouterr().out == f"{expected}\n\nwritten to {tmp_path / 'page.html'}\n"  # no terminal, no colours
    page = Visible()
    page.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert text in page.text
    assert main(command) == 1
    assert "expected a new file" in capsys.readouterr().err
    assert main(["explain", str(classifier_folder), "oui", "--output", "page.txt"]) == 1
    assert capsys.readouterr().err == "greffe: error: expected --output to end in .html, found page.txt\n"


def test_command_reads_standard_input(
    classifier_folder: Path,
    classifier: Classifier,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = reviews(1)[0]
    monkeypatch.setattr(sys, "stdin", io.StringIO(text + "\n"))
    assert main(["explain", str(classifier_folder)]) == 0
    assert capsys.readouterr().out == format_explanation(explain(classifier, text), colour=False) + "\n"


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_colours_in_a_terminal_unless_unwanted(
    classifier_folder: Path, no_colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, terminal = os.openpty()
    monkeypatch.setenv("NO_COLOR", no_colour)
    with open(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["explain", str(classifier_folder), reviews(1)[0]]) == 0
        shown = os.read(reader, 10_000)
    os.close(reader)
    assert "log-odds" in shown.decode()
    assert (b"\x1b[30;48;5;" in shown) == (not no_colour)


def test_default_is_documented() -> None:
    from greffe.train.commands import explain as command

    assert f'default="{explanation.DEFAULT_METHOD}"' in Path(command.__file__).read_text()
