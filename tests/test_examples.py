"""The examples: short, and they run as their first lines say."""

import json
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from greffe.train.arguments import CompareArguments, FinetuneArguments, PretrainArguments, parse_arguments
from greffe.train.cli import main
from invented_text import make_documents

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script: str, *arguments: object, cwd: Path) -> str:
    command = [sys.executable, EXAMPLES / script, *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    texts = make_documents(200, seed=1)
    (folder / "corpus.txt").write_text("\n".join(texts))
    rows = [json.dumps({"text": text, "label": "long" if len(text) > 60 else "court"}) for text in texts]
    (folder / "labelled.jsonl").write_text("\n".join(rows[:150]))
    (folder / "test.jsonl").write_text("\n".join(rows[150:]))
    return folder


def test_scripts_are_short() -> None:
    for path in EXAMPLES.glob("*_with_trainer.py"):
        assert len(path.read_text().splitlines()) < 60, path.name


def test_both_scripts_with_plain_trainer(files: Path, tmp_path: Path) -> None:
    model, classifier = tmp_path / "model", tmp_path / "classifier"
    sizes = ("--steps", 3, "--vocab_size", 300, "--block_size", 32)
    run("pretrain_with_trainer.py", files / "corpus.txt", model, *sizes, cwd=tmp_path)
    labelled = (files / "labelled.jsonl", files / "test.jsonl")
    said = run("finetune_with_trainer.py", model, *labelled, classifier, "--epochs", 1, cwd=tmp_path)
    assert "test accuracy" in said
    assert json.loads((classifier / "config.json").read_text())["id2label"] == {"0": "court", "1": "long"}


def test_every_yaml_file_is_of_one_stage_and_says_how_to_use_it() -> None:
    stages = {"pretrain": [PretrainArguments], "finetune": [FinetuneArguments, CompareArguments]}
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert len(files) > 2
    for path in files:
        stage = path.name.removesuffix(".yaml").split("-")[0]
        assert path.read_text().startswith(f"# greffe {stage} --config examples/{path.name} ")
        for arguments in stages[stage]:
            required = [f.name for f in fields(arguments) if f.default is f.default_factory is MISSING]
            given = [f"--{name}=x" for name in required]
            read = parse_arguments(arguments, ["--config", str(path), *given], "greffe", "")
            assert read != parse_arguments(arguments, given, "greffe", "")


def test_both_stages_from_their_yaml_files(files: Path, tmp_path: Path) -> None:
    model, classifier = tmp_path / "model", tmp_path / "classifier"
    smaller = ["--tokenizer_vocab_size=300", "--hidden_size=32", "--intermediate_size=32", "--num_hidden_layers=1"]
    smaller += ["--block_size=32", "--per_device_train_batch_size=4", "--max_minutes=0.05"]
    pretrain = ["pretrain", "--config", EXAMPLES / "pretrain-20-minutes.yaml", "--corpus", files / "corpus.txt"]
    assert main([*map(str, pretrain), "--output", str(model), *smaller]) == 0
    finetune = [
        "finetune",
        "--config",
        EXAMPLES / "finetune.yaml",
        "--model",
        model,
        "--train",
        files / "labelled.jsonl",
    ]
    assert main([*map(str, finetune), "--output", str(classifier), "--num_train_epochs=1"]) == 0
    assert json.loads((classifier / "greffe.json").read_text())["arguments"]["ngram_order"] == 2
