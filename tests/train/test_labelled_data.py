"""Labelled files are read as they are, row by row, or refused with the place."""

from __future__ import annotations

import gzip
import json
import math
from decimal import Decimal

import pyarrow
import pyarrow.parquet
import pytest
from greffe.train.labelled_data import read_labelled
from hypothesis import given, settings
from hypothesis import strategies as st


def write_csv(folder, *lines: str, header: str = "text,label"):
    (folder / "a.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder / "a.csv"


def write_jsonl(folder, *labels: object):
    rows = [json.dumps({"text": f"texte {number}", "label": label}) for number, label in enumerate(labels)]
    (folder / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder / "a.jsonl"


class TestFormats:
    def test_every_format_gives_the_same_rows(self, tmp_path):
        texts, labels = ["NA", "l'été, « déjà »", "", "007", "null"], ["négatif", "NA", "null", "007", "7"]
        rows = [{"id": 1, "text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        lines = "".join(f'1,"{row["text"]}",{row["label"]}\n' for row in rows)
        (tmp_path / "b.csv").write_text("id,text,label\n" + lines, encoding="utf-8")
        with gzip.open(tmp_path / "c.csv.gz", "wt", encoding="utf-8") as file:
            file.write("id,text,label\n" + lines)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "d.parquet")
        for path in sorted(tmp_path.iterdir()):
            data = read_labelled(path)
            assert (data.texts, data.labels, data.task) == (texts, labels, "single_label"), path
            assert data.input_ids is None

    def test_named_columns(self, tmp_path):
        path = write_csv(tmp_path, "3,bien", header="étoiles,avis")
        data = read_labelled(path, text_column="avis", label_column="étoiles")
        assert (data.texts, data.labels, data.label_column) == (["bien"], ["3"], "étoiles")

    def test_reviews_in_pieces_have_ids_and_texts(self, tmp_path):
        (tmp_path / "dict.txt").write_text("▁un 1\n▁livre 7\ns 1\n", encoding="utf-8")
        (tmp_path / "train.review.spm").write_text("▁un ▁livre s\n▁un ▁film\n", encoding="utf-8")
        (tmp_path / "train.label").write_text("1\n0\n")
        data = read_labelled(tmp_path / "train.review.spm")
        assert data.texts == ["un livres", "un film"]
        assert data.input_ids == [[0, 4, 5, 6], [0, 4, 3]]
        assert data.labels == ["1", "0"]
        assert data.select([1]).input_ids == [[0, 4, 3]]
        assert data.place(1).endswith("train.review.spm, line 2")
        assert read_labelled(tmp_path / "train.review.spm", dictionary={"▁un": 9}).input_ids == [
            [0, 9, 3, 3],
            [0, 9, 3],
        ]
        with pytest.raises(ValueError, match=r"expected task 'single_label' for .*, found 'regression'"):
            read_labelled(tmp_path / "train.review.spm", task="regression")


class TestRows:
    def test_selected_rows_keep_their_place(self, tmp_path):
        data = read_labelled(write_csv(tmp_path, '"a', 'b",x', "c,y", "", "d,x"))
        assert [data.place(row).rpartition(", ")[2] for row in range(3)] == ["line 3", "line 4", "line 6"]
        chosen = data.select([2, 0])
        assert (len(chosen), chosen.texts, chosen.labels) == (2, ["d", "a\nb"], ["x", "x"])
        assert chosen.place(0).endswith("a.csv, line 6")
        assert data.texts == ["a\nb", "c", "d"]


class TestLabels:
    @pytest.mark.parametrize(
        ("value", "name"),
        [
            (1, "1"), (1.0, "1"), ("1", "1"), (" 1 ", "1"), ("1.0", "1.0"), ("007", "007"), (-0.0, "0"), (2.5, "2.5"),
            (10**25, "1" + "0" * 25), (True, "true"), ("NaN", "NaN"), ("très bon", "très bon"),
        ],
    )  # fmt: skip
    def test_a_label_is_known_by_its_name(self, tmp_path, value, name):
        data = read_labelled(write_jsonl(tmp_path, value, "autre"), task="single_label")
        assert data.labels == [name, "autre"]

    def test_numbers_of_parquet(self, tmp_path):
        for kind, values in (
            (pyarrow.int8(), [1, 0]),
            (pyarrow.float32(), [1.0, 0.0]),
            (pyarrow.bool_(), [True, False]),
        ):
            table = pyarrow.table({"text": ["a", "b"], "label": pyarrow.array(values, kind)})
            pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
            expected = ["true", "false"] if kind == pyarrow.bool_() else ["1", "0"]
            assert read_labelled(tmp_path / "a.parquet").labels == expected
        table = pyarrow.table({"text": ["a"], "label": [Decimal("2.00")]})
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
        assert read_labelled(tmp_path / "a.parquet").labels == ["2"]

    def test_several_labels(self, tmp_path):
        path = write_jsonl(tmp_path, ["drame", "humour"], [], [7])
        assert read_labelled(path).labels == [("drame", "humour"), (), ("7",)]
        path = write_csv(tmp_path, 'a,"drame, humour"', "b,", "c,drame", """d,"[""drame"", ""à, b""]\"""")
        assert read_labelled(path, task="multi_label").labels == [
            ("drame", "humour"), (), ("drame",), ("drame", "à, b"),
        ]  # fmt: skip
        path = write_csv(tmp_path, "a,x|y z", "b,z")
        assert read_labelled(path, label_separator="|").labels == [("x", "y z"), ("z",)]
        assert read_labelled(path).labels == ["x|y z", "z"]

    @settings(deadline=None)
    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
    def test_a_regression_reads_back_every_number(self, tmp_path_factory, numbers):
        folder = tmp_path_factory.mktemp("numbers")
        for path in (write_jsonl(folder, *numbers), write_csv(folder, *(f"a,{number!r}" for number in numbers))):
            assert read_labelled(path, task="regression").labels == numbers

    @pytest.mark.parametrize(
        ("labels", "task"),
        [
            ([0, 1], "single_label"), ([1.0, 2.0], "single_label"), (["1", "2"], "single_label"),
            ([1, 2.5], "regression"), (["1", "2.5"], "regression"), (["1.5", "deux"], "single_label"),
            ([["a"], []], "multi_label"), (["1_0", "2.5"], "single_label"),
        ],
    )  # fmt: skip
    def test_the_task_is_inferred(self, tmp_path, labels, task):
        assert read_labelled(write_jsonl(tmp_path, *labels)).task == task


class TestRefused:
    @pytest.mark.parametrize(
        ("labels", "task", "message"),
        [
            ([0, None], "auto", "expected a label in column 'label' of .*a.jsonl, line 2, found nothing; give the row"),
            ([0, "  "], "auto", "line 2, found nothing"),
            ([0, math.nan], "auto", "line 2, found float nan"),
            ([0, {"a": 1}], "auto", "line 2, found dict"),
            ([0, ["a"]], "single_label", r"expected one label in .*line 2, found \['a'\]; pass --task multi_label"),
            ([["a"], "b", 3], "auto", "expected a list of labels in .*line 3, found int 3; write"),
            ([["a"], None], "auto", r"line 2, found nothing; write \[\] for none"),
            ([["a"], ["b", ["c"]]], "auto", "expected one label in .*line 2"),
            ([[0, 1, 0]], "auto", r"expected each label once in .*line 1, found .*not a 0 or 1 for each"),
            ([["a"], "['b', 'c']"], "multi_label", r"expected a list of labels such as .*line 2, found .*as JSON"),
            ([0.5, "bon"], "regression", "expected a number in .*line 2, found str 'bon'; pass --task single_label"),
            ([0.5, ""], "regression", "line 2, found nothing"),
            ([0.5, math.inf], "auto", "line 2, found float inf"),
            ([0.5, True], "regression", "line 2, found bool True"),
        ],
    )
    def test_labels(self, tmp_path, labels, task, message):
        with pytest.raises(ValueError, match=message):
            read_labelled(write_jsonl(tmp_path, *labels), task=task)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("body,label\na,1\n", r"expected a column 'text' in .*a.csv, found .*; pass --text_column body$"),
            ("text,class\na,1\n", r"expected a column 'label' in .*a.csv, found .*; pass --label_column class$"),
            ("", "expected a column 'text' in .*a.csv, found .*an empty file"),
            ("text,label\n", "expected labelled texts in .*a.csv, found no row"),
            ("text,label\n,1\n  ,0\n", "found only blank texts in its 2 rows; check the file and --text_column"),
            (b"text,label\ncaf\xe9,1\n", r"expected UTF-8 in .*a.csv, found byte 0xe9 at position 14 \(line 2\)"),
        ],
    )
    def test_files(self, tmp_path, content, message):
        (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ValueError, match=message) as error:
            read_labelled(tmp_path / "a.csv")
        assert "\n" not in str(error.value)

    def test_undecodable_bytes_are_replaced_when_asked(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"text,label\ncaf\xe9,1\n")
        assert read_labelled(tmp_path / "a.csv", errors="replace").texts == ["caf\ufffd"]

    @pytest.mark.parametrize("value", ["null", "NaN", "3"])
    def test_texts_that_are_none(self, tmp_path, value):
        (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1}\n{"label": 0, "text": ' + value + "}")
        with pytest.raises(
            ValueError, match=r"expected text in 'text' of .*a.jsonl, line 2, found (nothing|float|int)"
        ):
            read_labelled(tmp_path / "a.jsonl")

    def test_paths(self, tmp_path):
        (tmp_path / "a.txt").write_text("a")
        (tmp_path / "a.tsv").write_text("a")
        with pytest.raises(FileNotFoundError, match=r"expected a labelled file, .*, found .*none.csv: no such file"):
            read_labelled(tmp_path / "none.csv")
        with pytest.raises(FileNotFoundError, match=r"found .*: a folder"):
            read_labelled(tmp_path)
        for name in ("a.txt", "a.tsv"):
            with pytest.raises(ValueError, match=rf"found .*{name}; rename it after what it holds"):
                read_labelled(tmp_path / name)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"task": "binary"}, r"expected task among \['single_label', .*'auto'\], found 'binary'"),
            ({"errors": "ignore"}, "expected errors among .*, found 'ignore'"),
            ({"task": "single_label", "label_separator": ";"}, "found ';' with task 'single_label'"),
            ({"label_separator": ""}, "found '' with task 'auto'"),
            ({"label_column": "text"}, "expected different columns for text and label, found 'text' for both"),
            ({"dictionary": {}}, "expected a dictionary with NAME.review.spm files only"),
        ],
    )
    def test_options(self, tmp_path, options, message):
        with pytest.raises(ValueError, match=message):
            read_labelled(write_csv(tmp_path, "a,1"), **options)
