"""The card that each stage leaves in its folder."""

import json
import re
from dataclasses import replace
from pathlib import Path

from greffe.hub import LocalHub
from greffe.hub.cards import CARD, is_replaceable, read_metadata
from greffe.train.finetune import finetune
from greffe.train.pretrain import pretrain
from tiny_reviews import make_reviews, write_rows
from tiny_stages import finetune_options, pretrain_options
from transformers import AutoModelForSequenceClassification


def numbers_after(name: str, card: str) -> list[str]:
    """The cells of the row of a table that starts with this name."""
    (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", card, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def test_the_card_of_a_language_model(tiny_corpus: Path, tmp_path: Path) -> None:
    record = pretrain(pretrain_options(tiny_corpus, tmp_path / "language-model"))
    card = (tmp_path / "language-model" / CARD).read_text()
    for name in ("loss", "perplexity", "bits_per_byte"):
        assert numbers_after(name, card) == [f"{record['metrics'][name]:.4g}"]
    assert f"- {record['data']['documents']:,} documents to train on" in card
    assert f"- {record['data']['tokens']:,} tokens in them" in card
    assert "- steps: 12, in" in card
    assert "`objective causal`" in card
    assert "greffe finetune --model language-model --train FILE --output DIR" in card
    assert "It writes what its corpus makes likely" in card
    assert read_metadata(tmp_path / "language-model" / CARD)["pipeline_tag"] == "text-generation"
    assert str(tmp_path) not in card
    assert "/" + tiny_corpus.parent.name not in card


def test_the_card_of_a_classifier_goes_along_to_the_hub(tiny_base: Path, labelled: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in labelled.read_text().splitlines()]
    test = write_rows(tmp_path / "test.jsonl", [*rows[:10], *make_reviews(30, seed=5)])
    folder = tmp_path / "classifier"
    record = finetune(replace(finetune_options(tiny_base, labelled, folder), test=str(test)))
    card = (folder / CARD).read_text()
    validation, tested = record["metrics"]["validation"], record["metrics"]["test"]
    assert numbers_after("accuracy", card) == [f"{validation['accuracy']:.4g}", f"{tested['accuracy']:.4g}"]
    assert f"| négatif | {' | '.join(map(str, tested['confusion_matrix'][0]))} |" in card
    assert "- test: 40 texts, of test.jsonl" in card
    (leak,) = [leak for leak in record["data"]["leaks"] if (leak["part"], leak["other"]) == ("train", "test")]
    assert f"{leak['exact']} texts of train stand in test" in card
    assert str(tmp_path) not in card
    # The lines of the card, from the folder that holds the model.
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert f"of {model.num_parameters():,} parameters" in card
    assert is_replaceable(folder / CARD)
    LocalHub(tmp_path / "hub").push(folder, "team/classifier")
    pushed = (LocalHub(tmp_path / "hub").snapshot("team/classifier") / CARD).read_text()
    assert 'from_pretrained("team/classifier"' in pushed
    assert numbers_after("accuracy", pushed) == numbers_after("accuracy", card)


def test_a_card_of_ones_own_is_kept(tiny_corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    pretrain(pretrain_options(tiny_corpus, folder))
    (folder / "greffe.json").unlink()
    (folder / CARD).write_text("# Mine\n")
    pretrain(pretrain_options(tiny_corpus, folder, resume=True))
    assert (folder / "greffe.json").exists()
    assert (folder / CARD).read_text() == "# Mine\n"
