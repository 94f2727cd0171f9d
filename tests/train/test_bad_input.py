"""Bad input ends with one clear line, a non-zero exit code and nothing half-written, in both stages."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from greffe.train.cli import main
from processes import flags_of
from tiny_reviews import make_reviews, write_rows
from tiny_stages import finetune_options, pretrain_options


def assert_one_line(
    command: list[str], message: str, output: Path, capsys: pytest.CaptureFixture[str], is_kept: bool = False
) -> None:
    capsys.readouterr()
    assert main(command) == 1
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("greffe: ")]
    assert line.startswith("greffe: error: expected")
    assert message in line
    assert "Traceback" not in said
    assert output.exists() == is_kept


# Files ---------------------------------------------------------------------------------------------------------------


def write_bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def not_a_text(folder: Path) -> Path:
    return write_bytes(folder / "nan.jsonl", b'{"text": "un texte", "label": "a"}\n{"text": NaN, "label": "b"}\n')


def null_text(folder: Path) -> Path:
    pq.write_table(pa.table({"text": ["un texte", None], "label": ["a", "b"]}), folder / "null.parquet")
    return folder / "null.parquet"


def not_utf8(name: str, content: bytes) -> Callable[[Path], Path]:
    return lambda folder: write_bytes(folder / name, content)


@pytest.mark.parametrize(
    ("make_file", "message"),
    [
        (lambda folder: folder / "nowhere.csv", "nowhere.csv: no such file"),
        (lambda folder: write_bytes(folder / "other.csv", b"body,label\nun texte,a\n"), "found ['body', 'label']"),
        (lambda folder: write_bytes(folder / "de.csv", b"text;label\nun texte;a\n"), "de.csv, found semicolons"),
        (lambda folder: write_bytes(folder / "empty.csv", b""), "empty.csv"),
        (lambda folder: write_bytes(folder / "head.csv", b"text,label\n"), "found no row"),
        (lambda folder: write_bytes(folder / "blank.csv", b'text,label\n" ",a\n'), "only blank texts"),
        (lambda folder: write_rows(folder / "one.jsonl", [{"text": "un", "label": "a"}] * 9), "one.jsonl"),
        (not_utf8("latin.csv", "text,label\ndéjà vu,a\nautre,b\n".encode("latin-1")), "UTF-8"),
        (not_a_text, "nan.jsonl, line 2"),
        (null_text, "null.parquet, row 2"),
        (lambda folder: write_bytes(folder / "page.csv.gz", b"<html>"), "page.csv.gz"),
    ],
)
def test_labelled_files(
    make_file: Callable[[Path], Path], message: str, tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = finetune_options(tiny_base, make_file(tmp_path), tmp_path / "run")
    assert_one_line(["finetune", *flags_of(options)], message, tmp_path / "run", capsys)


def test_a_label_that_training_does_not_have(
    tiny_base: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_rows(tmp_path / "other.jsonl", [*make_reviews(5, seed=2), {"text": "un texte", "label": "neutre"}])
    for part in ("validation", "test"):
        options = replace(finetune_options(tiny_base, labelled, tmp_path / "run"), **{part: str(other)})
        assert_one_line(["finetune", *flags_of(options)], "'neutre'", tmp_path / "run", capsys)


@pytest.mark.parametrize("given", ["nothing", "tokenizer", "tokenizer and stream"])
@pytest.mark.parametrize(
    ("make_file", "message"),
    [
        (lambda folder: folder / "nowhere.txt", "nowhere.txt"),
        (lambda folder: write_bytes(folder / "other.jsonl", b'{"body": "un texte"}\n'), "found ['body']"),
        (lambda folder: write_bytes(folder / "empty.txt", b""), "empty.txt"),
        (lambda folder: write_bytes(folder / "blank.txt", b" \n\n \n"), "blank.txt"),
        (not_utf8("latin.txt", "déjà vu\n".encode("latin-1") * 9), "UTF-8"),
        (not_a_text, "nan.jsonl, line 2"),
        (null_text, "null.parquet, row 2"),
    ],
)
def test_corpora(
    given: str,
    make_file: Callable[[Path], Path],
    message: str,
    tiny_base: Path,
    tiny_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who reads it first differs: the tokenizer that is trained, the library that caches, or the stream."""
    changes = {} if given == "nothing" else {"tokenizer": str(tiny_base), "streaming": given.endswith("stream")}
    options = pretrain_options(make_file(tmp_path), tmp_path / "run", **changes)
    assert_one_line(["pretrain", *flags_of(options)], message, tmp_path / "run", capsys)


# Models --------------------------------------------------------------------------------------------------------------


def no_model(folder: Path) -> None:
    (folder / "config.json").unlink()


def foreign_model(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))


def broken_configuration(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def truncated_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def corrupt_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def other_sizes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (other_sizes, "expected model.layers.0.mlp.down_proj.weight of shape (32, 64), found (32, 48)"),
        (no_model, "config.json"),
        (foreign_model, "bert"),
        (broken_configuration, "config.json, found a damaged file"),
        (truncated_weights, "model, found a damaged file"),
        (corrupt_weights, "model, found a damaged file"),
        (no_weights, "found no .safetensors file"),
        (no_tokenizer, "tokenizer"),
    ],
)
def test_model_folders(
    stage: str,
    damage: Callable[[Path], None],
    message: str,
    tiny_base: Path,
    tiny_corpus: Path,
    labelled: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_base, model)
    damage(model)
    command = ["finetune", *flags_of(finetune_options(model, labelled, tmp_path / "run"))]
    if stage == "pretrain":
        sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"))
        command = ["pretrain", *flags_of(pretrain_options(tiny_corpus, tmp_path / "run", model=str(model), **sizes))]
    assert_one_line(command, message, tmp_path / "run", capsys)


# The folder of the run -----------------------------------------------------------------------------------------------


def commands(tiny_corpus: Path, tiny_base: Path, labelled: Path, output: Path) -> list[list[str]]:
    return [
        ["pretrain", *flags_of(pretrain_options(tiny_corpus, output))],
        ["finetune", *flags_of(finetune_options(tiny_base, labelled, output))],
    ]


def test_a_folder_in_use(
    tiny_corpus: Path, tiny_base: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    holder = (
        "import sys, time; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print(1, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", holder, folder / ".lock"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for command in commands(tiny_corpus, tiny_base, labelled, folder):
            assert_one_line(command, "in use by another run", folder, capsys, is_kept=True)
        process.kill()
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_folder_of_something_else(
    tiny_corpus: Path, tiny_base: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis.doc").write_text("years of work")
    for command in commands(tiny_corpus, tiny_base, labelled, folder):
        assert_one_line(command, "found ['thesis.doc']", folder, capsys, is_kept=True)
    assert [path.name for path in folder.iterdir()] == ["thesis.doc"]
    assert (folder / "thesis.doc").read_text() == "years of work"


# Options -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"early_stopping_patience": 0}, "expected --early_stopping_patience above 0, found 0"),
        ({"save_total_limit": 0}, "expected --save_total_limit above 0, found 0"),
        ({"gradient_accumulation_steps": 0}, "expected --gradient_accumulation_steps above 0, found 0"),
        ({"num_train_epochs": 0.0}, "expected --num_train_epochs above 0, found 0.0"),
        ({"max_steps": 0}, "expected --max_steps above 0, or -1 for as many as there are, found 0"),
        ({"max_minutes": 1.0, "warmup_steps": 50}, "expected --warmup_steps below 1, a share, with --max_minutes"),
        ({"max_minutes": 1.0, "lr_scheduler_type": "polynomial"}, "cosine, linear or constant"),
    ],
)
def test_options_of_both_stages(
    changes: dict[str, Any],
    message: str,
    tiny_corpus: Path,
    tiny_base: Path,
    labelled: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = replace(pretrain_options(tiny_corpus, tmp_path / "run"), **changes)
    assert_one_line(["pretrain", *flags_of(first)], message, tmp_path / "run", capsys)
    second = replace(finetune_options(tiny_base, labelled, tmp_path / "run"), **changes)
    assert_one_line(["finetune", *flags_of(second)], message, tmp_path / "run", capsys)


def test_early_stopping_needs_a_validation_part(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = pretrain_options(tiny_corpus, tmp_path / "run", early_stopping_patience=2, validation_fraction=0.0)
    assert_one_line(["pretrain", *flags_of(options)], "--validation_fraction above 0", tmp_path / "run", capsys)


def test_tensorboard_that_is_not_installed(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorboard", "tensorboardX"):
        monkeypatch.setitem(sys.modules, name, None)  # as Python marks a package that is not to be found
    options = pretrain_options(tiny_corpus, tmp_path / "run", tensorboard=True)
    message = "found none; pip install greffe[tensorboard]"
    assert_one_line(["pretrain", *flags_of(options)], message, tmp_path / "run", capsys)
