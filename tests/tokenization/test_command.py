"""`greffe tokenizer` as people type it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from greffe.tokenization import load_tokenizer
from greffe.train.cli import main
from invented_text import make_documents
from tokenizers import Tokenizer


@pytest.fixture
def corpus(tmp_path):
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        for document in make_documents(100):
            file.write(json.dumps({"body": document}) + "\n")
    return tmp_path / "corpus.jsonl.gz"


def greffe(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["tokenizer", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_train_then_show(tmp_path, capsys, corpus, algorithm):
    options = ["--text_column", "body", "--algorithm", algorithm, "--vocab_size", 400, "--model_max_length", 64]
    code, out, _ = greffe(capsys, "train", "--corpus", corpus, "--output", tmp_path / "out", *options)
    assert (code, out) == (0, f"{algorithm} tokenizer of 400 tokens written to {tmp_path / 'out'}\n")
    tokenizer = load_tokenizer(tmp_path / "out")
    assert (len(tokenizer), tokenizer.model_max_length) == (400, 64)
    assert type(tokenizer.backend_tokenizer.model).__name__.lower() == algorithm
    code, out, _ = greffe(capsys, "show", tmp_path / "out", "Balo </s>")
    assert code == 0
    assert out.splitlines()[1].split() == ["<s>", "0"]
    assert "</s>" not in out
    assert out.splitlines()[-1].endswith("a piece")


def test_the_file_alone_lower_cases(tmp_path, capsys, corpus):
    options = ["--corpus", corpus, "--text_column", "body", "--vocab_size", 300, "--lowercase"]
    assert greffe(capsys, "train", *options, "--output", tmp_path / "out")[0] == 0
    backend = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert backend.encode("BALO").ids == backend.encode("balo").ids


def test_a_corpus_too_small_for_the_vocabulary_is_told(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("aa aa\n\naa\naa\n")
    _, out, _ = greffe(capsys, "train", "--corpus", tmp_path / "a.txt", "--output", tmp_path / "out")
    assert "bpe tokenizer of 261 tokens (the corpus holds no more; 8,192 were asked for) written to" in out


def test_separator_and_errors_reach_the_reader(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 ab\nab\n\nab\n")
    arguments = ["train", "--corpus", tmp_path / "a.txt", "--output", tmp_path / "out"]
    code, _, err = greffe(capsys, *arguments)
    assert code == 1
    assert err.startswith(
        f"greffe: error: expected UTF-8 in {tmp_path / 'a.txt'}, found byte 0xe9 at position 3 (line 1)"
    )
    assert not (tmp_path / "out").exists()
    code, _, _ = greffe(capsys, *arguments, "--errors", "replace", "--separator", "blank_line")
    assert code == 0
    assert load_tokenizer(tmp_path / "out")("ab")["input_ids"][1] >= 260  # "ab" was learned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vocab_size", "100"], "expected vocab_size of at least 260"),
        (["--corpus", "none.txt"], "found none.txt: no such file"),
        (["--text_column", "texte"], "found ['body']; pass --text_column"),
        (["--model_max_length", "0"], "expected model_max_length of at least 2, found 0"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(tmp_path, capsys, corpus, arguments, message):
    options = ["--corpus", corpus, "--text_column", "body", "--output", tmp_path / "out", *arguments]
    code, out, err = greffe(capsys, "train", *options)
    assert (code, out) == (1, "")
    assert err.startswith("greffe: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl.gz"]


@pytest.mark.parametrize("action", ["train", "import"])
def test_a_folder_with_something_in_it_is_refused_and_kept(tmp_path, capsys, action):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    inputs = {"train": ["--corpus", "none.txt"], "import": ["--sentencepiece", "none", "--dict", "none"]}[action]
    code, _, err = greffe(capsys, action, *inputs, "--output", tmp_path / "out")
    assert code == 1
    assert "expected a new or empty folder, found mine in" in err
    assert (tmp_path / "out" / "mine").read_text() == "mine"


def test_show_without_a_tokenizer(tmp_path, capsys):
    code, _, err = greffe(capsys, "show", tmp_path / "nowhere", "text")
    assert code == 1
    assert "found no such folder; make one with `greffe tokenizer train`" in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_interrupted_while_reading_nothing_is_left(tmp_path):
    os.mkfifo(tmp_path / "slow.txt")
    command = [sys.executable, "-m", "greffe.train.cli", "tokenizer", "train"]
    command += ["--corpus", tmp_path / "slow.txt", "--output", tmp_path / "out"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with contextlib.suppress(BrokenPipeError), open(tmp_path / "slow.txt", "w") as pipe:  # opens when the reader does
        pipe.write("un document\n" * 10_000)
        pipe.flush()
        # Text goes on coming, as a signal that another thread of the process takes does not wake a waiting reader; and
        # the key is pressed again, as one that falls into foreign code can be lost there.
        for tenth in range(600):
            if process.poll() is not None:
                break
            if tenth % 30 == 0:
                process.send_signal(signal.SIGINT)
            pipe.write("un document\n")
            pipe.flush()
            time.sleep(0.1)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("greffe: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["slow.txt"]


def test_help_and_the_reader_do_not_wait_for_the_libraries():
    script = """
import sys
from greffe.train.cli import main
for arguments in (["tokenizer", "--help"], ["tokenizer", "train", "--help"], ["tokenizer", "import", "--help"]):
    try:
        main(arguments)
    except SystemExit:
        pass
from greffe.tokenization import read_corpus
heavy = {"torch", "transformers", "tokenizers", "datasets", "pyarrow", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for shown in ("--vocab_size", "--lowercase", "--errors", "--sentencepiece", "show", "blank_line"):
        assert shown in result.stdout
