"""The card of a push: made from what was saved, kept when somebody wrote it."""

import json
from pathlib import Path
from typing import Any

import pytest
from greffe.hub import LocalHub
from greffe.hub.cards import CARD, MARK, count_parameters, make_card, read_metadata
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification


def pushed_card(hub: LocalHub, folder: Path) -> str:
    hub.push(folder, "team/tiny")
    return (hub.snapshot("team/tiny") / CARD).read_text()


def test_a_card_says_what_was_saved(hub: LocalHub, model_folder: Path) -> None:
    card = ModelCard(pushed_card(hub, model_folder))
    data = card.data.to_dict()
    assert data["language"] == "fr"
    assert data["base_model"] == "team/base"
    assert data["datasets"] == ["reviews.csv"]  # no path of somebody's machine
    assert data["metrics"] == ["eval_accuracy", "eval_loss"]
    assert data["pipeline_tag"] == "text-classification"
    assert data["library_name"] == "transformers"
    (result,) = [result for result in card.data.eval_results if result.metric_type == "eval_accuracy"]
    assert (result.metric_value, result.dataset_name) == (0.9125, "reviews.csv")
    parameters = AutoModelForSequenceClassification.from_pretrained(model_folder).num_parameters()
    assert f"of {parameters:,} parameters" in card.text
    assert "| eval_accuracy | 0.9125 |" in card.text
    assert "Labels: bad, good." in card.text
    assert "at revision `v2`" in card.text
    assert 'AutoModelForSequenceClassification.from_pretrained("team/tiny", trust_remote_code=True)' in card.text
    assert "/home/somebody" not in card.content
    assert not (model_folder / CARD).exists()


def test_a_folder_of_anything_else_has_a_card_too(hub: LocalHub, model_folder: Path) -> None:
    (model_folder / "greffe.json").unlink()
    data = ModelCard(pushed_card(hub, model_folder)).data.to_dict()
    assert data["pipeline_tag"] == "text-classification"
    assert not {"language", "base_model", "datasets", "metrics", "model-index"} & {*data}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "no JSON", "null", '{"metrics": 3, "data": [1, null], "language": 5, "base_model": [], "versions": "x"}',
     '{"metrics": {"a": "text", "b": null, "c": true, "d": NaN}, "data": {"x": 1}, "stage": {}}',
     '{"stage": "finetune", "metrics": {"test": {"per_class": {"a": 1, "b": {}}, "confusion_matrix": [1, [2]]}}}',
     '{"data": {"parts": [1, {"name": [], "file": 5}], "leaks": [{}], "rows": []}, "arguments": [], "steps": "x"}',
     '{"datasets": ["' + "x" * 5000 + '"], "base_model": {"path": 7}}'],
)  # fmt: skip
def test_a_strange_record_does_not_stop_a_push(text: str, hub: LocalHub, model_folder: Path) -> None:
    (model_folder / "greffe.json").write_text(text)
    assert "# team/tiny" in pushed_card(hub, model_folder)


def test_what_somebody_wrote_is_kept(hub: LocalHub, model_folder: Path) -> None:
    (model_folder / CARD).write_text("# Mine\nWritten by hand.\n")
    assert pushed_card(hub, model_folder) == "# Mine\nWritten by hand.\n"


def test_a_card_that_was_made_here_is_made_anew(hub: LocalHub, model_folder: Path, tmp_path: Path) -> None:
    hub.push(model_folder, "team/tiny")
    hub.pull("team/tiny", tmp_path / "pulled")
    record = json.loads((tmp_path / "pulled" / "greffe.json").read_text())
    (tmp_path / "pulled" / "greffe.json").write_text(json.dumps({**record, "metrics": {"eval_accuracy": 0.5}}))
    assert "| eval_accuracy | 0.5 |" in pushed_card(hub, tmp_path / "pulled")
    # without the line that says so it is the user's
    text = (tmp_path / "pulled" / CARD).read_text()
    (tmp_path / "pulled" / CARD).write_text(text.replace(MARK, "Edited."))
    assert pushed_card(hub, tmp_path / "pulled").endswith("Edited.\n")


def test_the_placeholder_of_transformers_is_replaced(hub: LocalHub, model_folder: Path) -> None:
    from transformers.utils.hub import ModelCardData

    data = ModelCardData(library_name="transformers")
    description = (
        "This is the model card of a 🤗 transformers model that has been pushed on the Hub. This model card has been "
        "automatically generated."
    )
    ModelCard.from_template(data, model_description=description).save(model_folder / CARD)
    assert "More Information Needed" not in pushed_card(hub, model_folder)


def card_of(record: dict[str, Any], config: dict[str, Any], folder: Path) -> str:
    (folder / "greffe.json").write_text(json.dumps(record))
    (folder / "config.json").write_text(json.dumps(config))
    return make_card("reviews", {file.name: file for file in folder.iterdir()}, in_hub=False)


def test_a_card_of_a_classifier(tmp_path: Path) -> None:
    scores = {
        "good": {"precision": 0.75, "recall": 0.6, "f1": 0.66667, "rows": 5},
        "so|so": {"precision": 1.0, "recall": 0.5, "f1": 0.66667, "rows": 1234},
    }
    parts = [
        {"name": "train", "file": "/home/somebody/reviews.csv", "rows": 100, "duplicates": 2, "near_duplicates": 0},
        {"name": "test", "file": "/home/somebody/test.csv", "rows": 10, "duplicates": 0, "near_duplicates": 0},
    ]
    leak = {"part": "train", "other": "test", "exact": 3, "near": 1, "example": "/home/somebody/reviews.csv, line 3"}
    record = {
        "stage": "finetune",
        "arguments": {"seed": 0, "learning_rate": 5e-4, "train": "/home/somebody/reviews.csv", "deduplicate": True},
        "data": {"parts": parts, "leaks": [leak], "rows": {"train": 96, "test": 10}},
        "datasets": ["reviews.csv", "test.csv"],
        "base_model": {"path": "/home/somebody/hub/models--team--base/snapshots/0123456789abcdef", "sha256": "ab"},
        "steps": 1200, "best_step": 800, "seconds": 33.2,
        "metrics": {
            "validation": {"loss": 0.5, "accuracy": 0.8},
            "test": {"loss": 0.6, "accuracy": 0.7, "per_class": scores, "confusion_matrix": [[3, 2], [1, 1233]]},
        },
    }  # fmt: skip
    labels = {"0": "good", "1": "so|so"}
    config = {"architectures": ["GreffeForSequenceClassification"], "id2label": labels, "model_type": "greffe"}
    card = card_of(record, {**config, "problem_type": "single_label_classification"}, tmp_path)
    for line in (
        "A classifier of texts, made with Greffe.",
        "Labels: good, so\\|so.",
        "Made from `team/base` at revision `0123456789ab`.",
        "| metric | validation | test |",
        "| accuracy | 0.8 | 0.7 |",
        "| so\\|so | 1 | 0.5 | 0.6667 | 1,234 |",
        "| true \\ predicted | good | so\\|so |",
        "| so\\|so | 1 | 1,233 |",
        "- train: 96 texts, of reviews.csv (as read: 2 repeated)",
        "- overlap: 3 texts of train stand in test, and 1 nearly: they were removed",
        "- steps: 1,200, the best after 800, in 33 s",
        "- options: `seed 0`, `learning_rate 0.0005`, `deduplicate True`",
        'model = AutoModelForSequenceClassification.from_pretrained("reviews")',
    ):
        assert line in card.splitlines()
    assert "like those of the test file" in card
    assert "/home/somebody" not in card
    assert "greffe hub env" not in card  # it is a folder, and nobody has pushed it
    (result,) = [
        r for r in ModelCard(card).data.eval_results if (r.metric_type, r.dataset_split) == ("accuracy", "test")
    ]
    assert (result.metric_value, result.dataset_name) == (0.7, "test.csv")


def test_a_card_says_what_was_not_done(tmp_path: Path) -> None:
    leak = {"part": "train", "other": "validation", "exact": 3, "near": 1}
    record = {
        "stage": "finetune",
        "arguments": {"deduplicate": False, "from_scratch": True},
        "data": {"leaks": [leak]},
        "metrics": {"validation": {"accuracy": 0.8}},
        "base_model": {"path": "base"},
    }
    card = card_of(record, {"architectures": ["GreffeForSequenceClassification"]}, tmp_path)
    assert "and 1 nearly: they were **not** removed" in card
    assert "The epoch was chosen by the figures on validation: expect less on new texts." in card
    assert "The architecture of `base`, its weights drawn at random." in card


def test_a_card_of_many_classes_stays_short(tmp_path: Path) -> None:
    scores = {f"class {number}": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "rows": 1} for number in range(150)}
    record = {"stage": "finetune", "metrics": {"test": {"per_class": scores, "confusion_matrix": [[0] * 150] * 150}}}
    card = card_of(record, {"architectures": ["GreffeForSequenceClassification"]}, tmp_path)
    assert "The scores of the 150 classes on test are in `greffe.json`." in card
    assert "class 7" not in card


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    values = {"language": "fr\n---\n# gone", "base_model": "a\nlicense: mit", "stage": "x\n---\nx"}
    (tmp_path / "greffe.json").write_text(json.dumps(values))
    (tmp_path / "config.json").write_text("{}")
    card = make_card("team/name", {file.name: file for file in tmp_path.iterdir()})
    (tmp_path / CARD).write_text(card)
    assert "license" not in read_metadata(tmp_path / CARD)
    assert read_metadata(tmp_path / CARD)["language"] == "fr\n---\n# gone"


def test_counting_needs_weights(tmp_path: Path) -> None:
    for number, content in enumerate([b"", b"short", b"\xff" * 100, (2).to_bytes(8, "little") + b"[]"]):
        (tmp_path / f"{number}").write_bytes(content)
    assert count_parameters([*tmp_path.iterdir()]) == 0
