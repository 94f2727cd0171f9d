"""A classifier out of its folder: batches change nothing, texts are cut as in fine-tuning, others are refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from greffe.hub import LocalHub
from greffe.inference import Classifier, load_classifier
from greffe.modeling import GreffeForCausalLM, GreffeForSequenceClassification
from greffe.train.truncation import truncate_ids
from invented_text import make_documents
from safetensors.torch import load_file, save_file
from tiny_models import tiny_config
from trained_models import MAX_LENGTH, make_reviews, save_classifier, save_classifier_with_path


def logits_of(classifier: Classifier, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return classifier.model(torch.tensor([ids])).logits[0]


def test_predictions_are_those_of_each_text_alone_in_order(classifier: Classifier) -> None:
    texts = [row["text"] for row in make_reviews(37, seed=2)]
    predictions = classifier.predict(texts, batch_size=8)
    for text, prediction in zip(texts, predictions, strict=True):
        alone = logits_of(classifier, classifier.encode([text])[0]).double().softmax(-1)
        assert prediction.probabilities == pytest.approx(
            dict(zip(classifier.labels.names, alone.tolist(), strict=True)), abs=1e-6
        )
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.__getitem__)
    assert len({prediction.label for prediction in predictions}) == 2


def test_knows_what_it_learned(classifier: Classifier) -> None:
    rows = make_reviews(50, seed=3)
    right = [
        p.label == row["label"] for p, row in zip(classifier.predict([row["text"] for row in rows]), rows, strict=True)
    ]
    assert sum(right) >= 45


def test_a_path_of_ngrams_is_a_part_of_the_model(tmp_path: Path) -> None:
    classifier = load_classifier(save_classifier_with_path(tmp_path / "model"))
    assert classifier.model.ngrams is not None
    texts = [*(row["text"] for row in make_reviews(20, seed=2)), "", "oui"]
    logits = classifier.logits(classifier.encode(texts), batch_size=8)  # padded
    for row, text, prediction in zip(logits, texts, classifier.predict(texts, batch_size=8), strict=True):
        ids = classifier.encode([text])[0]
        alone = logits_of(classifier, ids)
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=1e-5)
        assert list(prediction.probabilities.values()) == pytest.approx(alone.softmax(-1).tolist(), abs=1e-5)
        with torch.no_grad():
            path = classifier.model.ngrams(torch.tensor([ids]))[0]
        assert (path.abs().max() > 0.01) == bool(text)  # without a word it has nothing to say
        classifier.model.ngrams, kept = None, classifier.model.ngrams
        torch.testing.assert_close(alone - logits_of(classifier, ids), path, atol=1e-5, rtol=1e-5)
        classifier.model.ngrams = kept


def test_long_texts_are_cut_as_the_record_says(classifier: Classifier) -> None:
    text = " ".join(make_documents(20))
    ids = classifier.tokenizer(text, verbose=False)["input_ids"]
    assert len(ids) > 2 * MAX_LENGTH
    kept = truncate_ids(ids, MAX_LENGTH, "both", classifier.tokenizer.bos_token_id)
    assert classifier.encode([text]) == [kept]
    logits = classifier.logits(classifier.encode([text]))[0]
    torch.testing.assert_close(logits, logits_of(classifier, kept), atol=1e-6, rtol=0)


def test_a_folder_without_a_record_is_cut_at_256(classifier_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(classifier_folder, tmp_path / "model"))
    (copy / "greffe.json").unlink()
    loaded = load_classifier(copy)
    text = " ".join(make_documents(50))
    assert loaded.encode([text])[0] == loaded.tokenizer(text, verbose=False)["input_ids"][:256]


def test_no_text_and_the_empty_text(classifier: Classifier) -> None:
    assert classifier.predict([]) == []
    assert classifier.predict([""])[0].label in classifier.labels.names


def test_threshold_abstains(classifier: Classifier) -> None:
    texts = [row["text"] for row in make_reviews(30, seed=5)]
    sure = classifier.predict(texts)
    best = sorted(prediction.top(1)[0][1] for prediction in sure)
    threshold = best[len(best) // 2]
    for before, after in zip(sure, classifier.predict(texts, threshold=threshold), strict=True):
        assert after.probabilities == before.probabilities
        assert after.labels == (before.labels if before.top(1)[0][1] >= threshold else ())
    with pytest.raises(ValueError, match=r"expected a threshold between 0 and 1, found 1\.5"):
        classifier.predict(texts, threshold=1.5)


def test_several_labels(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "model", steps=0, problem_type="multi_label_classification")
    classifier = load_classifier(folder)
    texts = make_documents(12)
    logits = classifier.logits(classifier.encode(texts))
    for row, half, low in zip(logits, classifier.predict(texts), classifier.predict(texts, threshold=0.1), strict=True):
        assert list(half.probabilities.values()) == pytest.approx(row.double().sigmoid().tolist())
        assert half.labels == tuple(name for name, logit in zip(classifier.labels.names, row, strict=True) if logit > 0)
        assert low.labels == tuple(name for name, share in low.probabilities.items() if share > 0.1)


def test_regression(tmp_path: Path) -> None:
    one = {"id2label": {0: "stars"}, "label2id": {"stars": 0}}
    classifier = load_classifier(save_classifier(tmp_path / "model", steps=0, **one))
    prediction = classifier.predict(["Un livre."])[0]
    assert prediction.value == pytest.approx(logits_of(classifier, classifier.encode(["Un livre."])[0]).item())
    assert (prediction.labels, prediction.label, prediction.probabilities) == ((), "", {})
    with pytest.raises(ValueError, match="expected no threshold for a regression"):
        classifier.predict(["Un livre."], threshold=0.5)


def test_a_model_of_the_local_hub(classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREFFE_HUB", str(tmp_path / "hub"))
    LocalHub().push(classifier_folder, "lab/reviews", tag="v1")
    loaded = load_classifier("lab/reviews@v1")
    assert loaded.predict(["oui"]) == load_classifier(classifier_folder).predict(["oui"])


def break_folder(folder: Path, how: str) -> None:
    if how == "no head":
        weights = GreffeForSequenceClassification.from_pretrained(folder).state_dict()
        del weights["score.weight"]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    elif how == "pickle":
        (folder / "model.safetensors").unlink()
        torch.save({}, folder / "pytorch_model.bin")
    elif how == "damaged":
        (folder / "model.safetensors").write_bytes(b"no weights")
    elif how == "nan":
        model = GreffeForSequenceClassification.from_pretrained(folder)
        model.score.weight.data[:] = torch.nan
        model.save_pretrained(folder)
    elif how == "language model":
        GreffeForCausalLM(tiny_config("modern", vocab_size=400)).save_pretrained(folder)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "no head",
            r"expected the weights of GreffeForSequenceClassification in .*, found none for \['score.weight'\]",
        ),
        ("pickle", r"expected weights as \*\.safetensors in .*, found .*'pytorch_model.bin'"),
        ("damaged", "expected whole weights in .*, found a damaged file"),
        ("nan", "expected finite logits, found NaN"),
        (
            "language model",
            "expected a classifier in .*, found a language model; .*`greffe finetune` makes it a classifier",
        ),
    ],
)
def test_what_is_refused(classifier_folder: Path, tmp_path: Path, how: str, message: str) -> None:
    folder = Path(shutil.copytree(classifier_folder, tmp_path / "model"))
    break_folder(folder, how)
    with pytest.raises((ValueError, OSError), match=message):
        load_classifier(folder).predict(["Un livre."])


def test_a_path_that_does_not_know_what_is_rare_is_refused(tmp_path: Path) -> None:
    """It would say nothing, and nobody would know."""
    folder = save_classifier_with_path(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["ngrams.rarity"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"found none for \['ngrams.rarity'\]"):
        load_classifier(folder)


def test_lone_surrogates_are_refused(classifier: Classifier) -> None:
    with pytest.raises(ValueError, match="found a lone surrogate at character 1 of text 1"):
        classifier.predict(["bon", "b\ud800"])


def test_batch_size(classifier: Classifier) -> None:
    bad: Any = 0
    with pytest.raises(ValueError, match="expected a batch size of at least 1, found 0"):
        classifier.predict(["bon"], batch_size=bad)


def test_bf16_rounds_and_decides_alike(classifier_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, rounded = (load_classifier(classifier_folder, bf16=choice) for choice in ("off", "on"))
    ids = exact.encode([row["text"] for row in make_reviews(40, seed=5)])
    one, other = exact.logits(ids), rounded.logits(ids)
    assert one.dtype == other.dtype == torch.float32
    assert not torch.equal(one, other)
    torch.testing.assert_close(other, one, atol=0.1, rtol=0.05)
    assert (one.argmax(-1) == other.argmax(-1)).float().mean() > 0.9
    for native in (True, False):
        monkeypatch.setattr("greffe.inference.classifier.native_bf16", lambda native=native: native)
        assert load_classifier(classifier_folder, bf16="auto").bf16 is native


def test_batches_in_bf16_have_few_lengths(classifier_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every shape torch would keep a program of its own."""
    lengths: dict[str, set[int]] = {"on": set(), "off": set()}
    for choice, seen in lengths.items():
        classifier = load_classifier(classifier_folder, bf16=choice)
        forward = classifier.model.forward

        def watched(seen: set[int] = seen, forward: Any = forward, **batch: Any) -> Any:
            seen.add(batch["input_ids"].shape[1])
            return forward(**batch)

        monkeypatch.setattr(classifier.model, "forward", watched)
        classifier.predict(["oui " * number for number in range(1, 30)], batch_size=1)
    assert {length % 16 for length in lengths["on"]} == {0}
    assert len(lengths["on"]) < len(lengths["off"])
