"""The reference experiment as a command, on files of its format: its counts are exact, the rest is measured."""

import json
from pathlib import Path

import pytest
from greffe.train.cli import main
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
    sizes = ["--max_steps", "30", "--epochs", "2", "--seeds", "2"]
    return ["--data", str(data), "--corpus", str(folder / "corpus.txt"), "--output", str(folder / "out"), *sizes]


def test_claims_beside_measures(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *flags(data)]) == 0
    printed = capsys.readouterr()
    assert "cut to" not in printed.err
    lines = printed.out.splitlines()
    table = {line[: line.index("  ")]: line.split("  ")[-1].strip() for line in lines if "  " in line.strip()}
    # Tokens are few here: what the experiment's counts have without the vocabulary is the same.
    vocabulary = len((data / "dict.txt").read_text(encoding="utf-8").splitlines()) + 4
    assert table["parameters, language model"] == f"{968_000 + vocabulary * 401:,}"
    assert table["parameters, classifier"] == f"{968_000 + vocabulary * 200 + 402:,}"
    assert table["matrices of 6 layers, 5,000 tokens, language model"] == "3,440,000"
    assert table["matrices of 6 layers, 5,000 tokens, classifier"] == "2,440,400"
    assert table["perplexity after 500 steps"] == "not reached"
    assert float(table["perplexity at the end, step 30"].replace(",", "")) > 1
    # 30 steps of 16 are more than two passes over less than 200 texts.
    assert table["perplexity after two epochs"] == table["perplexity at the end, step 30"]
    assert "±" in table["pre-trained: test accuracy"]
    assert lines[-1].endswith("report.html")
    below = " ".join(lines[lines.index("") :])
    for difference in ("that of validation", "are removed: 0 of train and 0 of validation", "over 2 seeds"):
        assert difference in below
    check_settings(data.parent / "out")
    check_what_changes_is_noticed(data, capsys)


def check_settings(output: Path) -> None:
    """Of both stages, as they were run: Adam at a constant rate, the experiment's rates and batches, whole texts."""
    first = json.loads((output / "language-model" / "greffe.json").read_text())["arguments"]
    second = json.loads((output / "comparison" / "results.json").read_text())["settings"]
    for stage, rate, batch, length in ((first, 3e-4, 16, "block_size"), (second, [1e-4], 8, "max_length")):
        assert (stage["learning_rate"], stage["per_device_train_batch_size"]) == (rate, batch)
        assert (stage["lr_scheduler_type"], stage["warmup_steps"]) == ("constant", 0)
        assert (stage["weight_decay"], stage["max_grad_norm"], stage["bf16"]) == (0, 0, "off")
        assert stage["gradient_accumulation_steps"] == 1
        assert stage[length] > 1 + 1784  # of the experiment's longest text
    assert (first["preset"], first["embeddings"], first["packing"]) == ("lab", "random", False)
    assert (second["pooling"], second["frozen_learning_rate"]) == ("last", [1e-4, 1e-3])


def check_what_changes_is_noticed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *flags(data)]) == 0  # finds everything done
    assert "is there already" in capsys.readouterr().err
    for path, name in ((data.parent / "corpus.txt", "corpus"), (data / "dict.txt", "vocabulary")):
        before = path.read_text(encoding="utf-8")
        path.write_text(before + "nouveau 1\n", encoding="utf-8")
        assert main(["reproduce", *flags(data)]) == 1
        assert f"found another {name}; choose another --output" in capsys.readouterr().err
        path.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("missing", ["valid.review.spm", "a.model", "dict.txt", "test.label"])
def test_a_missing_file_is_named(data: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    (data / missing).unlink()
    assert main(["reproduce", *flags(data)]) == 1
    assert ("*.model" if missing == "a.model" else missing) in capsys.readouterr().err
    assert not (data.parent / "out").exists()


def test_an_option_of_stage_two_is_checked_before_stage_one(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *flags(data), "--epochs", "0"]) == 1
    assert "expected --num_train_epochs above 0" in capsys.readouterr().err
    assert not (data.parent / "out").exists()
