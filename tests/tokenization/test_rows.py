"""The columns of a table, as their format has them."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
import pytest
from greffe.tokenization.rows import Column, place_of, read_rows

TEXT, OTHER = Column("text"), Column("label", "--label_column", "the labels", is_text=False)


def test_values_come_in_the_order_asked_for_with_their_place(tmp_path):
    (tmp_path / "a.csv").write_text('label,id,text\n1,x,"a\nb"\n\n2,y,c\n')
    (tmp_path / "a.jsonl").write_text('\n{"text": "a", "label": [1.5, null]}\n{"label": null, "text": "c"}\n')
    table = pyarrow.table({"label": [[1], None], "text": ["a", "c"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    read = {
        path.suffix: [(row.values, row.number) for row in read_rows(path, [TEXT, OTHER])] for path in tmp_path.iterdir()
    }
    assert read == {
        ".csv": [(["a\nb", "1"], 3), (["c", "2"], 5)],
        ".jsonl": [(["a", [1.5, None]], 2), (["c", None], 3)],
        ".parquet": [(["a", [1]], 1), (["c", None], 2)],
    }
    assert place_of(tmp_path / "a.csv.gz", 1200).endswith("a.csv.gz, line 1,200")
    assert place_of(tmp_path / "a.parquet", 2).endswith("a.parquet, row 2")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("body,label", r"expected a column 'text' in .*a.csv, found \['body', 'label'\]; pass --text_column body$"),
        ("the body,label", r"pass --text_column 'the body'$"),
        ("text,class", r"expected a column 'label' in .*found \['text', 'class'\]; pass --label_column class$"),
        ("a,b,text", r"pass --label_column with the one that holds the labels$"),
        ("", r"expected a column 'text' in .*a.csv, found \[\], an empty file"),
        ("text,label,text", r"expected one column 'text' in .*a.csv, found .*; rename all but one$"),
    ],
)
def test_columns_that_are_not_there(tmp_path, header, message):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,3\n" if header else "")
    with pytest.raises(ValueError, match=message):
        list(read_rows(tmp_path / "a.csv", [TEXT, OTHER]))


@pytest.mark.parametrize(
    ("header", "found", "sep"),
    [
        ("text;label", "semicolons: 'text;label'", "';'"),
        ('"text";"label"', "semicolons: ", "';'"),
        ("text\tlabel", "tabs: ", r"'\\t'"),
        ("body|label", "bars: ", r"'\|'"),
    ],
)
def test_columns_between_something_else_than_commas(tmp_path, header, found, sep):
    (tmp_path / "a.csv").write_text(f"{header}\n1;2\n")
    message = rf"expected commas between the columns of .*a.csv, found {found}.*; save it with commas, as .*sep={sep}"
    with pytest.raises(ValueError, match=message):
        list(read_rows(tmp_path / "a.csv", [TEXT, OTHER]))


def test_the_name_of_the_only_column_may_hold_anything(tmp_path):
    (tmp_path / "a.csv").write_text("text;label\na\n")
    assert [row.values for row in read_rows(tmp_path / "a.csv", [Column("text;label")])] == [["a"]]


def test_half_characters_inside_lists(tmp_path):
    (tmp_path / "a.jsonl").write_text(r'{"text": "a", "label": ["b\ud83d"]}')
    with pytest.raises(ValueError, match=r"a.jsonl, line 1, found a lone surrogate"):
        list(read_rows(tmp_path / "a.jsonl", [TEXT, OTHER]))
    assert next(read_rows(tmp_path / "a.jsonl", [TEXT, OTHER], "replace")).values == ["a", ["b\ufffd"]]


def test_undecodable_text_inside_lists(tmp_path):
    labels = pyarrow.array([[b"a"], [b"\xe9"]], pyarrow.list_(pyarrow.binary())).view(pyarrow.list_(pyarrow.string()))
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": labels}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"expected UTF-8 in .*a.parquet, found other bytes"):
        list(read_rows(tmp_path / "a.parquet", [TEXT, OTHER]))
