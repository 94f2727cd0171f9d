"""The reference experiment as a command, on files of its format: its counts are exact, the rest is measured."""

from pathlib import Path

import pytest
from greffe.train.cli import main
from greffe.train.reproduce import PLAIN_ADAM
from invented_text import make_documents
from sentencepiece_models import train_model
from tiny_reviews import make_reviews


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    folder.mkdir()
    processor = train_model(folder)
    for seed, (name, rows) in enumerate((("train", 24), ("valid", 12), ("test", 20))):
        reviews = make_reviews(rows, seed)
        pieces = [" ".join(processor.encode(review["text"], out_type=str)) for review in reviews]
        (folder / f"{name}.review.spm").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        (folder / f"{name}.label").write_text("".join(f"{int(row['label'] == 'positif')}\n" for row in reviews))
    (tmp_path / "corpus.txt").write_text("\n".join(make_documents(200)), encoding="utf-8")
    return folder


def flags(data: Path) -> list[str]:
    folder = data.parent
    sizes = ["--max_steps", "3", "--epochs", "2", "--seeds", "2"]
    return ["--data", str(data), "--corpus", str(folder / "corpus.txt"), "--output", str(folder / "out"), *sizes]


def test_claims_beside_measures(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *flags(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = {line[: line.index("  ")]: line.split("  ")[-1].strip() for line in lines if "  " in line.strip()}
    # Tokens are few here: what the experiment's counts have without the vocabulary is the same.
    vocabulary = len((data / "dict.txt").read_text(encoding="utf-8").splitlines()) + 4
    assert table["parameters, language model"] == f"{968_000 + vocabulary * 401:,}"
    assert table["parameters, classifier"] == f"{968_000 + vocabulary * 200 + 402:,}"
    assert table["perplexity after 500 steps"] == "not reached"
    assert float(table["perplexity at the end, step 3"].replace(",", "")) > 1
    assert "±" in table["pre-trained: test accuracy"]
    assert lines[-1].endswith("report.html")
    assert main(["reproduce", *flags(data)]) == 0  # finds everything done
    assert "is there already" in capsys.readouterr().err


def test_the_optimiser_is_the_experiments() -> None:
    assert PLAIN_ADAM == {
        "lr_scheduler_type": "constant",
        "warmup_steps": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
    }


@pytest.mark.parametrize("missing", ["valid.review.spm", "a.model", "dict.txt"])
def test_a_missing_file_is_named(data: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    (data / missing).unlink()
    assert main(["reproduce", *flags(data)]) == 1
    assert ("*.model" if missing == "a.model" else missing) in capsys.readouterr().err
