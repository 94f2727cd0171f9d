"""The report as files: all there, each whole, nothing of an earlier one left."""

import json
import shutil

import pytest
from comparison_results import METHODS, make_results, remove_runs
from greffe.train.comparison.report import format_verdict, summarise, write_report
from greffe.train.comparison.statistics import compute_statistics

FIGURES = ("accuracy-by-epoch", "accuracy-by-labels", "differences", "confusion", "parameters")
FILES = {"results.json", "results.csv", "report.md", "report.html"} | {
    f"figures/{name}.{ending}" for name in FIGURES for ending in ("png", "svg")
}


def list_files(folder) -> set[str]:
    return set(read_files(folder))


def read_files(folder) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report that tests copy: drawing takes seconds."""
    folder = tmp_path_factory.mktemp("report")
    write_report(make_results(METHODS, ["all"], 1, rows=200), folder)
    return folder


def test_files(tmp_path):
    results = make_results(seeds=2, rows=200)
    before = json.dumps(results)
    paths = write_report(results, tmp_path / "new" / "folder")
    assert {str(path.relative_to(tmp_path / "new" / "folder")) for path in paths} == FILES
    assert list_files(tmp_path / "new" / "folder") == FILES
    assert json.dumps(results) == before
    saved = json.loads((tmp_path / "new" / "folder" / "results.json").read_text())
    assert saved["statistics"] == compute_statistics(results)
    assert "\n".join(saved["verdict"]) == format_verdict(results)


def test_the_same_results_give_the_same_files(report, tmp_path):
    write_report(make_results(METHODS, ["all"], 1, rows=200), tmp_path)
    assert read_files(tmp_path) == read_files(report)


def test_an_earlier_report_is_replaced_whole(report, tmp_path):
    shutil.copytree(report, tmp_path, dirs_exist_ok=True)
    (tmp_path / "figures" / "of-somebody-else.png").write_bytes(b"x")
    write_report(remove_runs(make_results(METHODS, ["all"], 1, rows=200), seed=0), tmp_path)
    assert list_files(tmp_path) == {
        "results.json", "results.csv", "report.md", "report.html", "figures/parameters.png", "figures/parameters.svg",
        "figures/of-somebody-else.png",
    }  # fmt: skip


def test_results_that_cannot_be_true_leave_the_earlier_report(report, tmp_path):
    shutil.copytree(report, tmp_path, dirs_exist_ok=True)
    results = make_results(METHODS, ["all"], 1, rows=200)
    results["runs"][2]["predictions"].reverse()
    with pytest.raises(ValueError, match="expected predictions of accuracy"):
        write_report(results, tmp_path)
    assert read_files(tmp_path) == read_files(report)


def test_a_file_that_cannot_be_written_leaves_each_whole(report, tmp_path):
    """The third file cannot be written: the two before it are new, it and those after it are old."""
    shutil.copytree(report, tmp_path, dirs_exist_ok=True)
    (tmp_path / ".report.md.partial").mkdir()
    with pytest.raises(OSError, match="partial"):
        write_report(make_results(["tfidf", "pretrained"], ["all"], 1, rows=200), tmp_path)
    before, after = read_files(report), read_files(tmp_path)
    assert [name for name in before if before[name] != after[name]] == ["results.csv", "results.json"]
    json.loads(after["results.json"])


def test_statistics_that_are_there_are_not_computed_again(tmp_path):
    results = make_results(seeds=1, budgets=["all"])
    results["statistics"] = compute_statistics(results)
    results["statistics"]["differences"][0]["mean"] = 0.4321
    assert "43.2 points" in format_verdict(results)


def test_table_for_the_terminal():
    results = remove_runs(make_results(seeds=2, spread=0), method="frozen", budget="100", seed=1)
    results = remove_runs(results, method="scratch", budget="400")
    lines = summarise(results).splitlines()
    assert lines[0].split("  ")[0] == "method"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "majority class", "TF-IDF", "from scratch", "frozen trunk", "pre-trained"
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert lines[0].endswith("100 labels    400 labels  all 1,555 labels")
    assert lines[3].endswith("56.0 ± 0.0 %             –      76.5 ± 0.0 %")
    assert "68.0 % (n = 1)" in lines[4]
