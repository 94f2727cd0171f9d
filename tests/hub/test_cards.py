"""The card of a push: made from what was saved, kept when somebody wrote it."""

import json
from pathlib import Path

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
     '{"metrics": {"a": "text", "b": null, "c": true, "d": NaN}, "data": {"x": 1}, "stage": {}}'],
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
