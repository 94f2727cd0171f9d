"""What is said of the data before training."""

from __future__ import annotations

import json

from greffe.train.data_report import describe_data
from labelled_texts import make_labelled

LONG = " ".join(f"mot{number}" for number in range(40))


def test_classes():
    train = make_labelled(["a", " ", "B", "b", LONG, "c"], ["bon", "bon", "bon", "nul", "bon", "nul"])
    validation = make_labelled(["d", "A", "b"], ["bon", "nul", "bon"], file="valid.csv")
    test = make_labelled([f"{LONG} fin", "x" * 9, "e", "f"], ["bon", "bon", "nul", "nul"], file="test.csv")
    report = describe_data({"train": train, "validation": validation, "test": test})
    assert str(report).splitlines() == [
        "data        rows  blank  duplicates  near  other label  labels",
        "train          6      1           1     0            1  bon: 4 (66.7%), nul: 2 (33.3%)",
        "validation     3      0           0     0            0  bon: 2 (66.7%), nul: 1 (33.3%)",
        "test           4      0           0     0            0  bon: 2 (50.0%), nul: 2 (50.0%)",
        "overlap              exact  near  first",
        "train in validation      3     0  train.csv, line 2 = valid.csv, line 3",
        "train in test            0     1  train.csv, line 6 = test.csv, line 2",
    ]
    saved = json.loads(json.dumps(report.to_dict()))
    assert saved == report.to_dict()
    assert saved["parts"][0]["labels"] == {"bon": 4, "nul": 2}
    assert saved["leaks"][1] == {
        "part": "train", "other": "test", "exact": 0, "near": 1,
        "example": "train.csv, line 6 = test.csv, line 2",
    }  # fmt: skip


def test_a_regression_tells_its_range_and_no_overlap_is_no_line():
    report = describe_data({"train": make_labelled(["a", "b", "b"], [0.5, 1.0, 3.0], "regression")})
    assert str(report).splitlines() == [
        "data   rows  blank  duplicates  near  other label  labels",
        "train     3      0           1     0            1  min 0.5, mean 1.5, max 3",
    ]


def test_several_labels_are_counted_by_row_and_rare_ones_summed_up():
    labels = [("x",), ("x", "y"), (), ("z",)]
    report = describe_data({"train": make_labelled("abcd", labels, "multi_label")})
    assert str(report).endswith("x: 2 (50.0%), y: 1 (25.0%), z: 1 (25.0%)")
    many = [f"c{number:02}" for number in range(10)] + ["c09"] * 10
    report = describe_data({"train": make_labelled([f"texte {row}" for row in range(20)], many)})
    assert str(report).endswith("c09: 11 (55.0%), c00: 1 (5.0%), c01: 1 (5.0%), c02: 1 (5.0%), c03: 1 (5.0%), "
                                "c04: 1 (5.0%), c05: 1 (5.0%), c06: 1 (5.0%) and 2 rarer ones")  # fmt: skip
