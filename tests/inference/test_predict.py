"""Predictions for files: every column kept, in order, in every format; killed and continued, the same bytes."""

import csv
import io
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from greffe.inference import Classifier, load_classifier, predict_file, prediction_job
from greffe.inference.prediction_job import PredictionColumns, predict_to_file
from greffe.inference.sources import Source
from greffe.train.cli import main
from invented_text import make_documents
from trained_models import make_reviews, save_classifier

KILL = Path(__file__).parents[1] / "support" / "kill_predictions.py"


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_job, "WINDOW", 16)


def make_rows(number: int = 50) -> list[dict[str, Any]]:
    """Rows with all kinds of columns beside the text."""
    return [
        {
            "id": index,
            "text": row["text"] + ' "quoted", 1\n2' * (index % 3 == 0),
            "label": row["label"],
            "score": index / 7,
            "tags": ["a", "b"][: index % 3],
            "note": None if index % 2 else "é,;",
        }
        for index, row in enumerate(make_reviews(number, seed=7))
    ]


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(row["text"].replace("\n", " ") + "\n" for row in rows), encoding="utf-8")
    return path


def read_table(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read().to_pylist()
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("output", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_every_column_is_kept_in_order(classifier: Classifier, tmp_path: Path, source: str, output: str) -> None:
    rows = make_rows()
    path = write_table(tmp_path / f"in.{source}", rows)
    assert predict_file(classifier, path, tmp_path / f"out.{output}") == len(rows)
    expected = classifier.predict([row["text"] for row in rows])
    found = read_table(tmp_path / f"out.{output}")
    assert len(found) == len(rows)
    for row, before, prediction in zip(found, rows, expected, strict=True):
        assert row.pop("prediction") == prediction.label
        assert float(row.pop("probability")) == pytest.approx(prediction.top(1)[0][1], abs=1e-5)
        if "csv" in (source, output):
            text = {name: "" if value is None else str(value) for name, value in before.items()}
            text["tags"] = as_text(before["tags"]) if source != "csv" else str(before["tags"])
            before = text
        assert row == before
        assert list(row) == list(before)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([path.name, f"out.{output}"])


def test_types_of_parquet_stay(classifier: Classifier, tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["oui", "non", "oui"], pa.large_string()),
            "when": pa.array([datetime(2020, 1, 2), None, datetime(2021, 3, 4)], pa.timestamp("ms")),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "bytes": pa.array([b"\xff", b"", None]),
            "small": pa.array([1, 2, 3], pa.int8()),
        }
    ).replace_schema_metadata({"made": "by hand"})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    predict_file(classifier, tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert found.select(table.column_names).schema == table.schema
    assert found.schema.metadata[b"made"] == b"by hand"
    assert found.select(table.column_names).to_pylist() == table.to_pylist()
    predict_file(classifier, tmp_path / "in.parquet", tmp_path / "out.jsonl")
    first = read_table(tmp_path / "out.jsonl")[0]
    assert (first["when"], first["bytes"], first["kind"]) == ("2020-01-02T00:00:00", "/w==", "a")


def test_rows_of_different_keys(classifier: Classifier, tmp_path: Path) -> None:
    rows = [{"text": text} for text in make_documents(40)]
    rows[3]["more"], rows[37]["more"], rows[39]["last"] = 1, 2.5, [True]  # type: ignore[assignment]
    path = write_table(tmp_path / "in.jsonl", rows)
    for output in ("jsonl", "csv", "parquet"):
        predict_file(classifier, path, tmp_path / f"out.{output}")
    assert [{k: v for k, v in row.items() if k[:2] != "pr"} for row in read_table(tmp_path / "out.jsonl")] == rows
    assert read_table(tmp_path / "out.csv")[37]["more"] == "2.5"
    found = read_table(tmp_path / "out.parquet")
    assert (found[3]["more"], found[37]["more"], found[0]["more"], found[39]["last"]) == (1.0, 2.5, None, [True])


def test_mixed_types_are_refused_before_the_work(classifier: Classifier, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "oui", "x": 1} for _ in range(40)]
    rows[35]["x"] = "one"
    path = write_table(tmp_path / "in.jsonl", rows)
    with pytest.raises(ValueError, match=r"expected values of one type in each column of .*in\.jsonl.*; write \.jsonl"):
        predict_file(classifier, path, tmp_path / "out.parquet")
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.jsonl"]


def test_surrogates_of_other_columns_survive(classifier: Classifier, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "oui", "x": "\\ud83d"}\n')
    predict_file(classifier, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert read_table(tmp_path / "out.jsonl")[0]["x"] == "\ud83d"


def test_windows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    for name in ("in.csv", "in.jsonl", "in.txt"):
        source = Source(write_table(tmp_path / name, make_rows(3000)))
        first = next(source.windows(10))
        assert len(first.texts) == 10
        assert first.position < source.total_bytes / 2


def test_a_parquet_file_is_not_kept_in_memory(tmp_path: Path) -> None:
    """Also one whose rows are all in one group."""
    draw = random.Random(0)
    table = pa.table({name: [draw.randbytes(500).hex() for _ in range(16_000)] for name in ("text", "other")})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=16_000, compression="none", use_dictionary=False)
    del table
    size = (tmp_path / "in.parquet").stat().st_size
    assert size > 30_000_000
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for window in Source(tmp_path / "in.parquet").windows(256):
        rows += len(window.texts)
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 16_000
    assert most < size / 2


def test_killed_and_continued_gives_the_same_bytes(
    classifier: Classifier, classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_table(tmp_path / "in.jsonl", make_rows(3000))  # more than a fast machine does between kills
    names, kills = ["out.csv", "out.jsonl", "out.parquet"], 6
    command = [sys.executable, KILL, classifier_folder, source, kills, 3, *(tmp_path / name for name in names)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    for seen in json.loads(done.stdout.splitlines()[-1]):
        assert len(seen) == kills + 1, "an attempt ended before it was killed"
        assert seen == sorted(seen)
        assert seen[-1] > 2
    assert "continuing an interrupted run" in done.stderr
    monkeypatch.setattr(prediction_job, "WINDOW", 64)
    for name in names:
        predict_file(classifier, source, tmp_path / f"whole-{name}")
        assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert not list(tmp_path.glob(".*"))


def interrupt(classifier: Classifier, source: Path, output: Path, after: int) -> None:
    """Begin a run and leave it after some parts, as Ctrl-C does."""
    columns = PredictionColumns(classifier)
    original, count = columns.classifier.decide, 0

    def decide(*positional: Any) -> Any:
        nonlocal count
        count += 1
        if count > after:
            raise KeyboardInterrupt
        return original(*positional)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier, "decide", decide)
        with pytest.raises(KeyboardInterrupt):
            predict_to_file(Source(source), columns, output)


def test_other_settings_start_anew_and_say_so(
    classifier: Classifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    interrupt(classifier, source, output, after=2)
    assert len(list((tmp_path / ".out.csv.parts").glob("0*.csv"))) == 2
    assert not output.exists()
    predict_file(classifier, source, output, threshold=0.9, top_k=2)
    assert capsys.readouterr().err == "starting anew: threshold, top_k changed since the interrupted run\n"
    predict_file(classifier, source, tmp_path / "whole.csv", threshold=0.9, top_k=2)
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    output.unlink()
    interrupt(classifier, source, output, after=2)
    predict_file(load_classifier(classifier.folder, bf16="on"), source, output)
    assert capsys.readouterr().err == "starting anew: bf16 changed since the interrupted run\n"


def test_another_input_starts_anew(classifier: Classifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    interrupt(classifier, source, output, after=2)
    write_table(source, make_rows()[::-1])
    predict_file(classifier, source, output)
    assert capsys.readouterr().err == "starting anew: input changed since the interrupted run\n"
    assert [row["id"] for row in read_table(output)] == [str(number) for number in range(49, -1, -1)]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_another_model_starts_anew(
    classifier_folder: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of whatever its answers depend on; a change that leaves the meaning is taken for one as well."""
    folder = Path(shutil.copytree(classifier_folder, tmp_path / "model"))
    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    interrupt(load_classifier(folder), source, output, after=2)
    if name == "model.safetensors":
        changed = load_classifier(folder)
        with torch.no_grad():
            changed.model.score.weight.neg_()
        changed.model.save_pretrained(folder)
    else:
        (folder / name).write_text((folder / name).read_text() + "\n")
    classifier = load_classifier(folder)
    predict_file(classifier, source, output)
    assert "starting anew: model changed since the interrupted run\n" in capsys.readouterr().err
    expected = classifier.predict([row["text"] for row in make_rows()])
    assert [row["prediction"] for row in read_table(output)] == [prediction.label for prediction in expected]


def test_the_same_model_goes_on(classifier: Classifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    interrupt(classifier, source, output, after=2)
    predict_file(classifier, source, output)
    assert capsys.readouterr().err == "continuing an interrupted run: 2 parts of 16 texts are done\n"


def test_killed_before_the_last_rename(classifier: Classifier, tmp_path: Path) -> None:
    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    replace = Path.replace

    def stop(path: Path, target: Path) -> Path:
        if target == output:
            raise KeyboardInterrupt
        return replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            predict_file(classifier, source, output)
    assert not output.exists()
    assert predict_file(classifier, source, output) == 50
    assert len(read_table(output)) == 50
    assert not list(tmp_path.glob(".*"))


def test_two_runs_do_not_share_an_output(classifier: Classifier, tmp_path: Path) -> None:
    from filelock import FileLock

    source, output = write_table(tmp_path / "in.csv", make_rows()), tmp_path / "out.csv"
    interrupt(classifier, source, output, after=1)
    with (
        FileLock(tmp_path / ".out.csv.parts" / ".lock"),
        pytest.raises(OSError, match=r"found .*out\.csv being written by another run"),
    ):
        predict_file(classifier, source, output)


def test_a_finished_file_is_not_overwritten(classifier: Classifier, tmp_path: Path) -> None:
    source, output = write_table(tmp_path / "in.csv", make_rows(3)), tmp_path / "out.csv"
    output.write_text("mine")
    with pytest.raises(FileExistsError, match=r"expected a new file, found .*out\.csv"):
        predict_file(classifier, source, output)
    assert output.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_taken_names_are_refused_and_prefixed(classifier: Classifier, tmp_path: Path) -> None:
    rows = [{"text": "oui", "prediction": "mine"}] * 3
    for source in ("in.csv", "in.jsonl", "in.parquet"):
        path = write_table(tmp_path / source, rows)
        with pytest.raises(ValueError, match=r"expected no column 'prediction' beside the texts.*; pass --prefix"):
            predict_file(classifier, path, tmp_path / "out.jsonl")
    predict_file(classifier, tmp_path / "in.csv", tmp_path / "out.jsonl", prefix="model_")
    assert list(read_table(tmp_path / "out.jsonl")[0]) == [
        "text",
        "prediction",
        "model_prediction",
        "model_probability",
    ]


def test_top_k_and_threshold(classifier: Classifier, tmp_path: Path) -> None:
    """Where it abstains it gives no label, also not the second best; the probabilities are there."""
    source = write_table(tmp_path / "in.csv", make_rows())
    ranked = [prediction.top(2) for prediction in classifier.predict([row["text"] for row in make_rows()])]
    threshold = sorted(best[1] for best, _ in ranked)[20]
    predict_file(classifier, source, tmp_path / "out.jsonl", top_k=2, threshold=threshold)
    rows = read_table(tmp_path / "out.jsonl")
    for row, (best, second) in zip(rows, ranked, strict=True):
        given = best[1] >= threshold
        assert (row["prediction"], row["prediction_2"]) == ((best[0], second[0]) if given else ("", ""))
        assert (row["probability"], row["probability_2"]) == pytest.approx((best[1], second[1]), abs=2e-6)
    assert sum(row["prediction"] == "" for row in rows) == 20
    with pytest.raises(ValueError, match="expected --top_k between 1 and 2, the number of labels, found 3"):
        predict_file(classifier, source, tmp_path / "more.jsonl", top_k=3)


def test_several_labels(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "model", steps=0, problem_type="multi_label_classification")
    classifier = load_classifier(folder)
    source = write_table(tmp_path / "in.csv", make_rows())
    for name in ("out.csv", "out.parquet"):
        predict_file(classifier, source, tmp_path / name, threshold=0.4)
    expected = classifier.predict([row["text"] for row in make_rows()], threshold=0.4)
    for text, row, prediction in zip(
        read_table(tmp_path / "out.csv"), read_table(tmp_path / "out.parquet"), expected, strict=True
    ):
        assert json.loads(text["prediction"]) == row["prediction"]
        assert set(row["prediction"]) == set(prediction.labels)
        assert row["probability_positif"] == pytest.approx(prediction.probabilities["positif"], abs=1e-6)


def test_an_empty_table(classifier: Classifier, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,text\n")
    assert predict_file(classifier, tmp_path / "in.csv", tmp_path / "out.csv") == 0
    assert (tmp_path / "out.csv").read_text() == "id,text,prediction,probability\n"
    assert predict_file(classifier, tmp_path / "in.csv", tmp_path / "out.parquet") == 0
    assert pq.read_schema(tmp_path / "out.parquet").names == ["id", "text", "prediction", "probability"]


def test_command_in_a_process_of_its_own(classifier_folder: Path, tmp_path: Path) -> None:
    source = write_table(tmp_path / "in.csv", make_rows(5))
    command = [sys.executable, "-m", "greffe.train.cli", "predict", str(classifier_folder), source.name]
    done = subprocess.run([*command, "--output=out.jsonl"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "5 texts predicted; written to out.jsonl\n", done.stderr
    assert done.stderr == ""
    assert len(read_table(tmp_path / "out.jsonl")) == 5


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["predict", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_texts_as_arguments_and_lines(
    classifier_folder: Path,
    classifier: Classifier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [row["text"] for row in make_reviews(40, seed=9)]
    lines = [
        f"{p.label} {p.top(1)[0][1]:.3f}\t{text}" for text, p in zip(texts, classifier.predict(texts), strict=True)
    ]
    code, out, _ = run([str(classifier_folder), *texts], capsys)
    assert (code, out.splitlines()) == (0, lines)
    for flags in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
        code, out, _ = run([str(classifier_folder), *flags], capsys)
        assert (code, out.splitlines()) == (0, lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"oui\nn\xe9\n")))
    code, _, err = run([str(classifier_folder)], capsys)
    assert code == 1
    assert "expected UTF-8 on standard input, found byte 0xe9 on line 2" in err
    (tmp_path / "in.txt").write_text("\n".join(texts))
    code, out, _ = run([str(classifier_folder), str(tmp_path / "in.txt"), "--threshold=1"], capsys)
    assert [line.split()[0] for line in out.splitlines()] == ["-"] * 40
    code, out, _ = run([str(classifier_folder), texts[0], "--threshold=1", "--top_k=2"], capsys)
    (best, share), (second, rest) = classifier.predict(texts[:1])[0].top(2)
    assert out == f"- {share:.3f}, - {rest:.3f}\t{texts[0]}\n"
    code, out, _ = run([str(classifier_folder), texts[0], "--top_k=2"], capsys)
    assert out == f"{best} {share:.3f}, {second} {rest:.3f}\t{texts[0]}\n"


def test_a_typed_line_is_answered_before_the_next(
    classifier_folder: Path, classifier: Classifier, tmp_path: Path
) -> None:
    """In a terminal, which no text commands."""
    ours, terminal = os.openpty()
    command = [sys.executable, "-m", "greffe.train.cli", "predict", str(classifier_folder)]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal)
    try:
        for text in ("oui ba", "non \x1b[31m lo"):
            os.write(ours, text.encode() + b"\n")
            line = f"{classifier.predict([text])[0].label} [0-9.]+\t(.*)\r\n".encode()
            shown = b""
            while not (answer := re.search(line, shown)):
                assert select.select([ours], [], [], 60)[0], shown
                shown += os.read(ours, 4096)
            assert answer[1].decode() == text.replace("\x1b", "\ufffd")
            assert b"\x1b" not in shown
            assert b"B/s" not in shown
        os.write(ours, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(terminal)


def test_what_json_has_no_word_for_is_null(classifier: Classifier, tmp_path: Path) -> None:
    rows = pa.table({"text": ["oui", "non"], "x": [float("nan"), 1.5], "y": [[1.0, float("inf")], []]})
    pq.write_table(rows, tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text('{"text": "oui", "x": NaN, "y": {"z": [-Infinity]}}\n')

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = []
    for source in ("parquet", "jsonl"):
        predict_file(classifier, tmp_path / f"in.{source}", tmp_path / f"{source}.jsonl")
        lines = (tmp_path / f"{source}.jsonl").read_text().splitlines()
        found += [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row["x"] for row in found] == [None, 1.5, None]
    assert [row["y"] for row in found] == [[1.0, None], [], {"z": [None]}]


def test_a_file_without_an_output_goes_to_standard_output(
    classifier_folder: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source = write_table(tmp_path / "in.csv", make_rows(20))
    assert main(["predict", str(classifier_folder), str(source)]) == 0
    printed = capfdbinary.readouterr().out
    assert main(["predict", str(classifier_folder), str(source), "--output", str(tmp_path / "out.csv")]) == 0
    assert printed == (tmp_path / "out.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "expected a text or a file, found none.csv: no such file"),
        (
            ["in.csv", "texte"],
            "expected one file, or texts, found 2 arguments, of which in.csv is a file; give it alone",
        ),
        (["in.csv", "--output=out.xlsx"], "expected --output to end in .csv, .jsonl, .parquet, found out.xlsx"),
        (
            ["in.csv", "--output=in.csv"],
            "expected a new file, found in.csv; choose another --output, or remove it first",
        ),
        (
            ["in.csv", "--text_column=body"],
            "expected a column 'body' in in.csv, found ['id', 'text', 'label', 'score', 'tags', 'note']; pass "
            "--text_column with the one that holds the text",
        ),
        (
            ["in.arrow"],
            "expected a .txt, .jsonl, .csv file (plain or .gz, .xz, .zst, .bz2) or a .parquet file, found in.arrow; "
            "save it as .parquet",
        ),
        (["in.csv", "--threshold=2"], "expected a threshold between 0 and 1, found 2.0"),
        (["in.csv", "--batch_size=0"], "expected a batch size of at least 1, found 0"),
        (["broken.jsonl"], "expected text in 'text' of broken.jsonl, line 2, found int 3; remove the row or give it a "
         'text, which may be empty ("")'),
    ],
)  # fmt: skip
def test_errors_are_one_line(
    classifier_folder: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("in.csv"), make_rows(3))
    Path("broken.jsonl").write_text('{"text": "oui"}\n{"text": 3}\n')
    Path("in.arrow").write_text("text\noui\n")
    code, _, err = run([str(classifier_folder), *arguments], capsys)
    assert (code, err) == (1, f"greffe: error: {message}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.jsonl", "in.arrow", "in.csv"]


@pytest.mark.parametrize("name", ["in.arrow", "in.xlsx"])
def test_other_formats_are_refused_in_python_too(classifier: Classifier, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text\noui\n")
    with pytest.raises(ValueError, match=rf"or a \.parquet file, found .*{name}; "):
        predict_file(classifier, tmp_path / name, tmp_path / "out.csv")
