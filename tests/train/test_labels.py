"""Labels have one order, whatever the order of the rows, and survive into a model's configuration."""

from __future__ import annotations

import random

import pytest
import torch
from greffe.modeling import GreffeConfig, GreffeForSequenceClassification
from greffe.train.labels import LabelSet, collect_labels, count_labels, encode_labels
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_texts import make_labelled
from tiny_models import random_ids, tiny_config


def labelled(labels, task="single_label", file="train.csv"):
    return make_labelled([f"texte {row}" for row in range(len(labels))], labels, task, file)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["10", "9", "-1", "2.5", "9"], ("-1", "2.5", "9", "10")),
        (["positif", "négatif", "neutre"], ("neutre", "négatif", "positif")),
        (["b", "10", "9", "inf", "nan"], ("9", "10", "b", "inf", "nan")),
        (["7", "007"], ("007", "7")),
    ],
)
def test_numbers_in_their_order_then_words(labels, names):
    for seed in range(5):
        shuffled = random.Random(seed).sample(labels, len(labels))
        assert collect_labels(labelled(shuffled)).names == names


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=2, max_size=10).filter(lambda labels: len(set(labels)) > 1))
def test_ids_lead_back_to_the_names(labels):
    data = labelled(labels)
    names = collect_labels(data)
    assert [names.id2label[number] for number in encode_labels(data, names)] == labels
    assert names.label2id == {name: number for number, name in names.id2label.items()}
    assert sum(count_labels(data).values()) == len(labels)


def test_several_labels_become_zeros_and_ones():
    data = labelled([("b", "a"), (), ("c",)], "multi_label")
    names = collect_labels(data)
    assert names.names == ("a", "b", "c")
    assert encode_labels(data, names) == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert count_labels(data) == {"a": 1, "b": 1, "c": 1}


def test_a_regression_has_one_output_named_by_its_column():
    data = labelled([0.5, 2.0], "regression")
    assert collect_labels(data) == LabelSet("regression", ("label",))
    assert encode_labels(data, collect_labels(data)) == [0.5, 2.0]


@pytest.mark.parametrize(
    "data",
    [labelled(["pas mal", "bon"]), labelled([("a",), ("b", "c")], "multi_label"), labelled([1.0, 2.0], "regression")],
    ids=lambda data: data.task,
)
def test_a_saved_model_has_the_labels_and_learns_from_what_they_encode(tmp_path, data):
    labels = collect_labels(data)
    config = tiny_config(id2label=labels.id2label, label2id=labels.label2id, problem_type=labels.problem_type)
    config.save_pretrained(tmp_path)
    loaded = GreffeConfig.from_pretrained(tmp_path)
    assert LabelSet.from_config(loaded.problem_type, loaded.id2label) == labels
    model = GreffeForSequenceClassification(loaded)
    loss = model(input_ids=random_ids(2, 5), labels=torch.tensor(encode_labels(data, labels))).loss
    assert loss.isfinite()


def test_labels_in_order_of_their_ids_beyond_ten():
    names = tuple(f"c{number:02}" for number in range(12))
    assert LabelSet.from_config(None, {str(number): name for number, name in enumerate(names)}).names == names


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            labelled(["1", "1"]),
            "expected at least two classes in column 'label' of train.csv, found only '1' in 2 rows",
        ),
        (labelled([(), ()], "multi_label"), "expected at least one label in column 'label' of train.csv, found none"),
        (labelled([2.0, 2.0], "regression"), "expected different numbers in .*, found 2.0 in all 2 rows"),
        (labelled([f"{n}" for n in range(11)]), "found 11 different labels in 11 rows; .* or --task regression$"),
        (labelled([f"id{n}" for n in range(11)]), "found 11 different labels in 11 rows; pass --label_column$"),
    ],
)
def test_nothing_to_learn(data, message):
    with pytest.raises(ValueError, match=message):
        collect_labels(data)


def test_labels_that_only_other_parts_have_are_named():
    labels = collect_labels(labelled(["bon", "mauvais"]))
    with pytest.raises(
        ValueError, match=r"data, 'bon', 'mauvais', in column 'label' of valid.csv, found 'moyen', 'nul'"
    ) as e:
        encode_labels(labelled(["bon", "nul", "moyen", "nul"], file="valid.csv"), labels)
    assert "'moyen' first in valid.csv, line 4; add training examples" in str(e.value)
    assert "regression" not in str(e.value)
    with pytest.raises(ValueError, match=r"found '3.5' too.*, or pass --task regression$"):
        encode_labels(labelled(["3", "3.5"]), collect_labels(labelled(["3", "4"])))
    with pytest.raises(ValueError, match=r"found 'c' too, 'c' first in train.csv, line 3"):
        encode_labels(labelled([("a",), ("b", "c")], "multi_label"), LabelSet("multi_label", ("a", "b")))


def test_tasks_must_agree():
    with pytest.raises(
        ValueError, match=r"expected single_label labels in v.csv, as in training, found regression; pass"
    ):
        encode_labels(labelled([0.5], "regression", "v.csv"), LabelSet("single_label", ("a", "b")))
