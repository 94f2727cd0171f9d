"""Export: the logits of torch for any batch and length, int8 beside it, and a program without torch."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from greffe.inference import Classifier, LanguageModel, export_onnx, load_classifier, onnx_export
from greffe.inference.onnx_export import describe_model
from greffe.train.cli import main
from greffe.train.truncation import truncate_ids
from invented_text import make_documents
from labelled_texts import make_labelled
from trained_models import make_reviews, save_classifier, save_classifier_with_path

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
IMPORTS = (ast.Import, ast.ImportFrom)
EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_predict.py"


def labelled(number: int = 60):
    rows = make_reviews(number, seed=2)
    return make_labelled([row["text"] for row in rows], [row["label"] for row in rows])


@pytest.fixture(scope="module")
def exported(classifier_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    rows = [json.dumps(row) for row in make_reviews(60, seed=2)]
    (folder / "test.jsonl").write_text("\n".join(rows))
    command = [
        "export",
        str(classifier_folder),
        "--output",
        str(folder / "onnx"),
        "--texts",
        str(folder / "test.jsonl"),
    ]
    assert main(command) == 0
    return folder / "onnx"


def run_graph(folder: Path, **feed: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(folder / "model.onnx").run(None, feed)[0]


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 7), (3, 1), (5, 40), (2, 300)])
def test_any_batch_and_length(classifier: Classifier, exported: Path, batch: int, length: int) -> None:
    ids = np.random.default_rng(0).integers(4, 300, (batch, length))
    mask = np.ones_like(ids)
    mask[0, (length + 1) // 2 :] = 0  # padded on the right
    found = run_graph(exported, input_ids=ids, attention_mask=mask)
    with torch.no_grad():
        expected = classifier.model(torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_the_folder_is_complete(exported: Path, classifier: Classifier) -> None:
    names = {path.name for path in exported.iterdir()}
    assert {"model.onnx", "onnx.json", "tokenizer.json", "tokenizer_config.json"} <= names
    assert not any(name.endswith((".safetensors", ".data")) or name.startswith("int8") for name in names)
    assert json.loads((exported / "onnx.json").read_text())["labels"] == list(classifier.labels.names)


@pytest.mark.parametrize("truncation", ["head", "tail", "both"])
@pytest.mark.parametrize("length", [16, 17])
def test_what_a_long_text_keeps(classifier: Classifier, truncation, length: int) -> None:
    from dataclasses import replace

    settings = describe_model(replace(classifier, truncation=truncation, max_length=length))
    first, last = settings["keep_first"], settings["keep_last"]
    for size in (15, 16, 17, 18, 60):
        ids = list(range(size))
        kept = ids if len(ids) <= first + last else ids[:first] + ids[len(ids) - last :]
        assert kept == truncate_ids(ids, length, truncation, 0)


def run_example(folder: Path, texts: list[str], cwd: Path) -> list[list[str]]:
    """The fields of its lines, where there is neither torch nor Greffe."""
    code = (
        f"import runpy, sys\nsys.argv = ['onnx_predict.py', {str(folder)!r}, *{texts!r}]\n"
        f"runpy.run_path({str(EXAMPLE)!r})\n"
        "assert not {'torch', 'transformers', 'greffe'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_example_needs_neither_torch_nor_greffe(exported: Path, classifier: Classifier, tmp_path: Path) -> None:
    texts = [row["text"] for row in make_reviews(6, seed=5)]
    texts += ["oui </s> <pad>", "non " + " ".join(make_documents(10)), ""]
    expected = [[p.label, text] for p, text in zip(classifier.predict(texts), texts, strict=True)]
    assert run_example(exported, texts, tmp_path) == expected


def test_the_example_is_about_ten_lines() -> None:
    statements = [line for line in ast.parse(EXAMPLE.read_text()).body[1:] if not isinstance(line, IMPORTS)]
    assert statements[-1].end_lineno - statements[0].lineno < 13


def use_graph(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the graph that is there already: making one takes seconds."""
    monkeypatch.setattr(onnx_export, "write_graph", lambda _, path: shutil.copy(exported / "model.onnx", path))


def test_int8_is_smaller_and_nearly_as_good(
    classifier: Classifier, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_graph(exported, monkeypatch)
    report = export_onnx(classifier, tmp_path / "onnx", texts=labelled(), quantize="int8")
    torch32, onnx32, onnx8 = report.variants
    assert [variant.name for variant in report.variants] == ["torch fp32", "onnx fp32", "onnx int8"]
    assert onnx8.size < 0.6 * onnx32.size
    assert onnx8.size == (tmp_path / "onnx" / "model.onnx").stat().st_size
    assert torch32.difference == 0
    assert 0 <= onnx32.difference < 1e-4
    assert onnx32.agreement == 1
    assert onnx32.metric == torch32.metric
    assert onnx8.difference > onnx32.difference
    assert onnx8.agreement is not None
    assert onnx8.agreement > 0.9
    rows = make_reviews(60, seed=2)
    found = run_example(tmp_path / "onnx", [row["text"] for row in rows], tmp_path)
    right = sum(label == row["label"] for (label, _), row in zip(found, rows, strict=True))
    assert onnx8.metric == pytest.approx(right / 60)
    assert all(variant.texts_per_second > 0 and variant.milliseconds > 0 for variant in report.variants)
    table = str(report).splitlines()
    assert table[0].split()[-1] == "accuracy"
    assert table[-1] == "checked on 60 texts"
    assert len({len(line) for line in table[:-1]}) == 1


@pytest.mark.parametrize("kind", ["sinusoidal", "bidirectional"])
def test_every_kind_of_model(tmp_path: Path, kind: str) -> None:
    """Also of every kind of answer: the example gives the labels that hold, or the number."""
    options: dict[str, dict[str, Any]] = {
        "sinusoidal": {
            "position_embedding_type": "sinusoidal", "norm_first": False, "classifier_pooling": "last",
            "problem_type": "multi_label_classification",
        },
        "bidirectional": {
            "is_causal": False, "id2label": {0: "stars"}, "label2id": {"stars": 0}, "problem_type": "regression",
            "classifier_pooling": "layers",
        },
    }  # fmt: skip
    classifier = load_classifier(save_classifier(tmp_path / "model", steps=0, **options[kind]))
    texts = [row["text"] for row in make_reviews(8, seed=5)]
    with torch.no_grad():  # each label holds for half of the texts
        classifier.model.score.bias -= classifier.logits(classifier.encode(texts)).sort(0).values[3:5].mean(0)
    report = export_onnx(classifier, tmp_path / "onnx")
    assert report.variants[1].difference < 1e-4
    assert str(report).endswith("checked on random ids; --texts gives real ones")
    found, expected = run_example(tmp_path / "onnx", texts, tmp_path), classifier.predict(texts)
    assert [row[-1] for row in found] == texts
    if kind == "bidirectional":
        assert [float(row[0]) for row in found] == pytest.approx([p.value for p in expected], abs=1e-4)
    else:
        assert [tuple(row[:-1]) for row in found] == [prediction.labels for prediction in expected]
        assert len({prediction.labels for prediction in expected}) > 1


def test_a_path_of_ngrams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of texts that are shorter than its n-grams, and of batches with padding on either side."""
    classifier = load_classifier(save_classifier_with_path(tmp_path / "model", ngram_order=3))
    assert export_onnx(classifier, tmp_path / "onnx").variants[1].difference < 1e-4
    torch.manual_seed(0)
    for batch, length in [(1, 1), (3, 1), (3, 2), (2, 3), (1, 7), (5, 40), (2, 300)]:
        ids = torch.randint(4, 300, (batch, length))
        half, places = torch.randint(length, (batch, 1)), torch.arange(length)
        for mask in (torch.ones_like(ids), (places <= half).long(), (places >= half).long()):
            found = run_graph(tmp_path / "onnx", input_ids=ids.numpy(), attention_mask=mask.numpy())
            with torch.no_grad():
                expected = classifier.model(ids, attention_mask=mask).logits
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    use_graph(tmp_path / "onnx", monkeypatch)
    _, onnx32, onnx8 = export_onnx(classifier, tmp_path / "int8", texts=labelled(), quantize="int8").variants
    assert onnx8.size < onnx32.size
    assert 1e-4 < onnx8.difference < 0.1
    assert onnx8.agreement is not None
    assert onnx8.agreement > 0.9


def test_language_model(language_model: LanguageModel, tmp_path: Path) -> None:
    report = export_onnx(language_model, tmp_path / "onnx", texts=make_documents(20))
    assert report.variants[1].agreement == 1
    ids = np.array([language_model.tokenizer("Ba lo mi")["input_ids"]])
    found = run_graph(tmp_path / "onnx", input_ids=ids, attention_mask=np.ones_like(ids))
    with torch.no_grad():
        expected = language_model.model(torch.from_numpy(ids)).logits
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_a_graph_that_differs_is_not_written(
    classifier_folder: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_graph(exported, monkeypatch)
    classifier = load_classifier(classifier_folder)
    with torch.no_grad():
        classifier.model.score.bias += 0.01
    with pytest.raises(ValueError, match=r"within 0\.001, found a difference of 0\.01 in the ONNX file"):
        export_onnx(classifier, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_graph_tells_nothing_of_this_machine(exported: Path) -> None:
    content = (exported / "model.onnx").read_bytes()
    assert b".py" not in content
    assert str(Path(onnx_export.__file__).parent).encode() not in content


def test_refusals(classifier_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    assert main(["export", str(classifier_folder), "--output", str(tmp_path / "full")]) == 1
    assert "expected a new or empty folder, found mine in" in capsys.readouterr().err
    texts = ["--texts", str(tmp_path / "none.csv")]
    assert main(["export", str(classifier_folder), "--output", str(tmp_path / "new"), *texts]) == 1
    assert "none.csv: no such file" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
