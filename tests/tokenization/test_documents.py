"""What a document is in each format, and what is refused."""

from __future__ import annotations

import json

import pyarrow
import pyarrow.parquet
import pytest
from greffe.tokenization.documents import read_documents


def read(path, **options) -> list[str]:
    return [document for document, _ in read_documents(path, **options)]


def write(path, content: str | bytes):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


class TestText:
    def test_a_line_ends_at_a_line_feed_only(self, tmp_path):
        text = "un\u2028 deux\x0b\x0c\x85\x1c\r\n trois \n\nquatre"
        assert read(write(tmp_path / "a.txt", text)) == ["un\u2028 deux\x0b\x0c\x85\x1c", " trois ", "", "quatre"]

    def test_blank_lines_separate_documents(self, tmp_path):
        path = write(tmp_path / "a.txt", "\n\nun\r\ndeux\n \t\n\ntrois\n")
        assert read(path, separator="blank_line") == ["un\ndeux", "trois"]

    def test_byte_order_mark_is_not_text(self, tmp_path):
        assert read(write(tmp_path / "a.txt", b"\xef\xbb\xbfun\n\xef\xbb\xbfdeux")) == ["un", "\ufeffdeux"]


class TestJsonl:
    def test_text_and_other_keys(self, tmp_path):
        rows = [{"body": "l'été\n2 lignes", "label": 1}, {"label": 0, "body": "\U0001f389"}]
        path = write(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, rows)))
        assert read(path, text_column="body") == ["l'été\n2 lignes", "\U0001f389"]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"text": "a"', "broken JSON in .*a.jsonl, line 2: "),
            ("[1, 2]", "expected a JSON object a line, found list in .*a.jsonl, line 2"),
            ('{"body": "a", "label": 1}', r"expected a column 'text' in .*line 2, found \['body', 'label'\]"),
            ('{"text": 7}', "expected text in 'text' of .*line 2, found int 7"),
            ('{"text": NaN}', "line 2, found float nan"),
            ('{"text": null}', "line 2, found nothing"),
            ("[" * 100_000, "broken JSON in .*line 2"),
        ],
    )
    def test_refused(self, tmp_path, line, message):
        path = write(tmp_path / "a.jsonl", '{"text": "a"}\n' + line + "\n")
        with pytest.raises(ValueError, match=message):
            read(path)

    def test_lone_surrogates(self, tmp_path):
        path = write(tmp_path / "a.jsonl", r'{"text": "a\ud83db \ud83d\ude00"}')
        with pytest.raises(ValueError, match=r"a.jsonl, line 1, found a lone surrogate.*--errors replace"):
            read(path)
        assert read(path, errors="replace") == ["a\ufffdb \U0001f600"]


class TestCsv:
    def test_every_field_is_text(self, tmp_path):
        path = write(tmp_path / "a.csv", 'label,text\n0,NA\n1,007\n\n0,"a, ""b""\nc"\n1,\n0,null\n')
        assert read(path) == ["NA", "007", 'a, "b"\nc', "", "null"]

    def test_a_field_of_any_length(self, tmp_path):
        text = "mot " * 100_000
        assert read(write(tmp_path / "a.csv", f'text\n"{text}"\n')) == [text]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                "body,label\na,1\n",
                r"expected a column 'text' in .*a.csv, found \['body', 'label'\]; pass --text_column",
            ),
            ("", r"expected a column 'text' in .*a.csv, found \[\]"),
            ("text,label\na,1\nb, c,1\n", "expected 2 fields a row.*found 3 in the row that ends on line 3"),
            ('text\n"a"b\n', "expected well-formed CSV.*a.csv, line 2"),
            ('text\na\n"b\nc\n', "expected well-formed CSV, found unexpected end of data in .*a.csv, line 4"),
        ],
    )
    def test_refused(self, tmp_path, content, message):
        path = write(tmp_path / "a.csv", content)
        with pytest.raises(ValueError, match=message):
            read(path)


class TestParquet:
    def table(self, path, values, kind=None, **options):
        array = pyarrow.array(values, type=kind)
        pyarrow.parquet.write_table(pyarrow.table({"label": range(len(values)), "text": array}), path, **options)
        return path

    @pytest.mark.parametrize(
        "kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())]
    )
    def test_kinds_of_text(self, tmp_path, kind):
        values = ["NA", "", "007", "l'été"] * 1000
        path = self.table(tmp_path / "a.parquet", values, kind, row_group_size=700)
        found = list(read_documents(path))
        assert [document for document, _ in found] == values
        positions = [position for _, position in found]
        assert positions == sorted(positions)
        assert positions[-1] == path.stat().st_size

    def test_wrong_column(self, tmp_path):
        path = self.table(tmp_path / "a.parquet", ["a"])
        with pytest.raises(ValueError, match=r"expected a column 'body' in .*a.parquet, found \['label', 'text'\]"):
            read(path, text_column="body")
        with pytest.raises(ValueError, match=r"expected text in column 'label' of .*, found values of type int64"):
            read(path, text_column="label")

    def test_missing_value(self, tmp_path):
        path = self.table(tmp_path / "a.parquet", ["a", None])
        with pytest.raises(ValueError, match=r"expected text in 'text' of .*a.parquet, row 2, found nothing"):
            read(path)

    def test_undecodable(self, tmp_path):
        values = pyarrow.array([b"a", b"ab\xe9"], pyarrow.binary()).view(pyarrow.string())
        pyarrow.parquet.write_table(pyarrow.table({"text": values}), tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=r"a.parquet, row 2, found byte 0xe9 at position 2 of its text"):
            read(tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet", errors="replace") == ["a", "ab\ufffd"]

    def test_cut_short(self, tmp_path):
        path = self.table(tmp_path / "a.parquet", ["a"] * 1000)
        write(path, path.read_bytes()[:-100])
        with pytest.raises(ValueError, match=r"expected a whole parquet file, found .*a.parquet damaged or cut short"):
            read(path)
