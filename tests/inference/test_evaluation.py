"""Evaluation: the figures of the stages themselves, the mistakes in order, and a report that survives any text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from greffe.inference import (
    Classifier,
    LanguageModel,
    evaluate_classifier,
    evaluate_language_model,
    load_classifier,
)
from greffe.inference.evaluation_report import format_evaluation, shorten, to_markdown
from greffe.modeling import GreffeForCausalLM
from greffe.tokenization import encode_documents, load_tokenizer, read_corpus
from greffe.train.arguments import FinetuneArguments
from greffe.train.cli import main
from greffe.train.finetune import finetune
from greffe.train.packing import is_validation
from labelled_texts import make_labelled
from tiny_models import tiny_config
from trained_models import make_reviews, save_classifier


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return path


def labelled(number: int = 60, seed: int = 2):
    rows = make_reviews(number, seed)
    return make_labelled([row["text"] for row in rows], [row["label"] for row in rows])


def test_gives_the_figures_of_fine_tuning(classifier_folder: Path, tmp_path: Path) -> None:
    """The test part of a run, measured by the run and from its folder: long texts are cut in the same way."""
    tokenizer = load_tokenizer(classifier_folder)
    GreffeForCausalLM(tiny_config("modern", vocab_size=len(tokenizer))).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    train = write_rows(tmp_path / "train.jsonl", make_reviews(80, seed=1))
    test = write_rows(tmp_path / "test.jsonl", make_reviews(60, seed=2))
    record = finetune(
        FinetuneArguments(
            model=str(tmp_path / "base"), train=str(train), test=str(test), output=str(tmp_path / "run"), max_length=12,
            truncation="tail", num_train_epochs=1, learning_rate=1e-2, bf16="off",
        )
    )  # fmt: skip
    classifier = load_classifier(tmp_path / "run")
    assert (classifier.max_length, classifier.truncation) == (12, "tail")
    found = evaluate_classifier(classifier, labelled()).metrics
    expected = record["metrics"]["test"]
    assert found == {name: expected[name] for name in found}
    assert evaluate_classifier(replace(classifier, truncation="head"), labelled()).metrics != found


def test_intervals_surround_the_figures(classifier: Classifier) -> None:
    evaluation = evaluate_classifier(classifier, labelled())
    assert set(evaluation.intervals) == {"accuracy", "macro_f1"}
    for name, (low, high) in evaluation.intervals.items():
        assert low <= evaluation.metrics[name] <= high
    assert evaluate_classifier(classifier, labelled()) == evaluation


def test_worst_mistakes_come_first(classifier: Classifier) -> None:
    data = labelled()
    flipped = [{"positif": "négatif", "négatif": "positif"}[label] for label in data.labels[:20]]
    data = replace(data, labels=[*flipped, *data.labels[20:]])
    evaluation = evaluate_classifier(classifier, data, worst=100)
    predictions = classifier.predict(data.texts)
    wrong = {data.texts[row] for row in range(60) if predictions[row].label != data.labels[row]}
    assert {mistake.text for mistake in evaluation.mistakes} == wrong
    assert len(wrong) >= 15
    errors = [mistake.error for mistake in evaluation.mistakes]
    assert errors == sorted(errors, reverse=True)
    worst = evaluation.mistakes[0]
    row = data.texts.index(worst.text)
    assert worst.place == data.place(row)
    assert (worst.predicted, worst.expected) == (predictions[row].label, data.labels[row])
    assert worst.error == pytest.approx(predictions[row].probabilities[worst.predicted])


def test_calibration_is_of_the_winners(classifier: Classifier) -> None:
    data = labelled()
    evaluation = evaluate_classifier(classifier, data)
    predictions = classifier.predict(data.texts)
    assert evaluation.calibration is not None
    assert sum(evaluation.calibration.counts) == 60
    mean = np.dot(evaluation.calibration.counts, evaluation.calibration.confidences) / 60
    assert mean == pytest.approx(np.mean([prediction.top(1)[0][1] for prediction in predictions]))
    share = np.dot(evaluation.calibration.counts, evaluation.calibration.accuracies) / 60
    assert share == pytest.approx(evaluation.metrics["accuracy"])


def test_several_labels(tmp_path: Path) -> None:
    classifier = load_classifier(
        save_classifier(tmp_path / "model", steps=0, problem_type="multi_label_classification")
    )
    texts = [row["text"] for row in make_reviews(30, seed=2)]
    said = [prediction.labels for prediction in classifier.predict(texts)]
    everything = evaluate_classifier(classifier, make_labelled(texts, said, "multi_label"))
    assert everything.metrics["subset_accuracy"] == 1
    assert everything.mistakes == []
    said[4] = tuple(name for name in ("négatif", "positif") if name not in said[4])
    (mistake,) = evaluate_classifier(classifier, make_labelled(texts, said, "multi_label")).mistakes
    assert mistake.text == texts[4]
    assert everything.calibration is not None
    assert sum(everything.calibration.counts) == 60


def test_regression(tmp_path: Path) -> None:
    one = {"id2label": {0: "stars"}, "label2id": {"stars": 0}, "problem_type": "regression"}
    classifier = load_classifier(save_classifier(tmp_path / "model", steps=0, **one))
    texts = [row["text"] for row in make_reviews(30, seed=2)]
    values = [float(prediction.value or 0) for prediction in classifier.predict(texts)]
    values[7] += 3
    evaluation = evaluate_classifier(classifier, make_labelled(texts, values, "regression"))
    assert evaluation.metrics["mse"] == pytest.approx(9 / 30)
    assert evaluation.calibration is None
    assert evaluation.mistakes[0].text == texts[7]
    assert "expected calibration error" not in format_evaluation(evaluation)


def test_language_model_has_the_figures_of_pre_training(
    language_model: LanguageModel, language_model_folder: Path, tmp_path: Path
) -> None:
    record = json.loads((language_model_folder / "greffe.json").read_text())
    corpus = language_model_folder.parent / "corpus.txt"
    chosen = [text for text in corpus.read_text(encoding="utf-8").splitlines() if is_validation(text, 0.1, 0)]
    assert len(chosen) > 20
    (tmp_path / "validation.txt").write_text("\n".join(chosen), encoding="utf-8")
    found = evaluate_language_model(language_model, read_corpus(tmp_path / "validation.txt"), batch_size=3)
    assert found["metrics"] == pytest.approx(record["metrics"], rel=1e-5)
    assert found["documents"] == len(chosen)
    assert found["bytes"] == len("".join(chosen).encode())


def test_a_corpus_is_read_some_documents_at_a_time(
    language_model: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are those of the whole, and no more is in memory than asked for."""
    (tmp_path / "corpus.txt").write_text("\n".join(row["text"] for row in make_reviews(40, seed=2)), encoding="utf-8")
    whole = evaluate_language_model(language_model, read_corpus(tmp_path / "corpus.txt"))
    held: list[int] = []

    def encode(tokenizer: Any, batch: list[str]) -> Any:
        held.append(len(batch))
        return encode_documents(tokenizer, batch)

    monkeypatch.setattr("greffe.inference.evaluation._DOCUMENTS", 7)
    monkeypatch.setattr("greffe.inference.evaluation.encode_documents", encode)
    parts = evaluate_language_model(language_model, read_corpus(tmp_path / "corpus.txt"))
    assert parts["metrics"] == pytest.approx(whole["metrics"], rel=1e-5)
    assert parts["tokens"] == whole["tokens"]
    assert held == [7, 7, 7, 7, 7, 5]


def test_report_is_not_disturbed_by_texts(classifier: Classifier) -> None:
    text = "oui | <script>alert(1)</script>\n\x1b[31m *gras* `code` [lien](x)"
    evaluation = evaluate_classifier(classifier, make_labelled([text, "non"], ["négatif", "négatif"]))
    assert evaluation.mistakes
    page = to_markdown(evaluation)
    assert "<script>" not in page
    assert "oui \\| &lt;script&gt;" in page
    assert "\x1b" not in format_evaluation(evaluation)
    assert shorten("a" * 200).endswith("a…")


def test_command_writes_the_report(classifier_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "test.jsonl", make_reviews(60, seed=2))
    command = ["evaluate", str(classifier_folder), str(path), "--output", str(tmp_path / "report")]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "60 texts of" in out
    assert "expected calibration error" in out
    assert sorted(entry.name for entry in (tmp_path / "report").iterdir()) == [
        "evaluation.json", "evaluation.md", "reliability.png",
    ]  # fmt: skip
    content = json.loads((tmp_path / "report" / "evaluation.json").read_text())
    assert f"{content['metrics']['accuracy']:.4f}" in out
    assert content["calibration"]["expected_error"] > 0
    assert (tmp_path / "report" / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert main(command) == 1
    assert "expected a new or empty folder" in capsys.readouterr().err


def test_command_for_a_language_model(
    language_model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = str(language_model_folder.parent / "corpus.txt")
    assert main(["evaluate", str(language_model_folder), corpus, "--output", str(tmp_path / "report")]) == 0
    out = capsys.readouterr().out
    assert "500 documents" in out
    metrics = json.loads((tmp_path / "report" / "evaluation.json").read_text())["metrics"]
    assert f"bits_per_byte {metrics['bits_per_byte']:.4f}" in out


def test_unknown_labels_are_one_line(
    classifier_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "test.jsonl", [{"text": "oui", "label": "neutre"}])
    assert main(["evaluate", str(classifier_folder), str(path)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "expected the labels of the training data, 'négatif', 'positif'" in err
