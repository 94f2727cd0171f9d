"""The folder of a run: what it may be started in, what is left of a killed one, and what it may be continued with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from greffe.tokenization import load_tokenizer
from greffe.train.arguments import PretrainArguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.cli import main
from greffe.train.finetune import finetune
from greffe.train.pretrain import pretrain
from greffe.train.run_folder import keep_inputs, open_run
from processes import flags_of
from tiny_reviews import make_reviews, write_rows
from tiny_stages import finetune_options, pretrain_options, unfinish


def arguments(folder: Path, **changes: object) -> PretrainArguments:
    return PretrainArguments(corpus=["a.txt"], output=str(folder), **changes)


def leave_traces(folder: Path, checkpoint: bool) -> set[str]:
    """What a run has in its folder when it is killed."""
    with open_run(arguments(folder)):
        keep_inputs(folder, {"corpus": "a"}, 1)
        for name in ("tokenizer", "logs", *(["checkpoint-5"] if checkpoint else [])):
            (folder / name).mkdir()
        (folder / "best.safetensors").touch()
        return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("resume", [False, True])
def test_nothing_is_taken_from_a_run_that_saved_nothing(resume: bool, tmp_path: Path) -> None:
    leave_traces(tmp_path, checkpoint=False)
    with open_run(arguments(tmp_path, resume=resume)):
        assert {path.name for path in tmp_path.iterdir()} == {".lock", "settings.json"}


def test_a_run_that_goes_on_finds_everything(tmp_path: Path) -> None:
    left = leave_traces(tmp_path, checkpoint=True)
    with open_run(arguments(tmp_path, resume=True)):
        assert {path.name for path in tmp_path.iterdir()} == left


def test_the_tokenizer_of_a_killed_run_is_not_taken(tiny_corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with open_run(pretrain_options(tiny_corpus, folder)):
        load_tokenizer_of(tiny_corpus, folder / "tokenizer")
    pretrain(pretrain_options(tiny_corpus, folder, tokenizer_vocab_size=310, max_steps=1))
    assert len(load_tokenizer(folder)) == 310


def test_pretraining_does_not_go_on_with_another_case(tiny_corpus: Path, tmp_path: Path) -> None:
    options = pretrain_options(tiny_corpus, tmp_path / "whole", tokenizer_lowercase=True, max_steps=3)
    pretrain(options)
    tokenizer = load_tokenizer(tmp_path / "whole")
    assert tokenizer("BALO")["input_ids"] == tokenizer("balo")["input_ids"]
    unfinish(tmp_path / "whole", tmp_path / "run")
    with pytest.raises(ValueError, match="tokenizer_lowercase=True before, False now"):
        pretrain(replace(options, output=str(tmp_path / "run"), tokenizer_lowercase=False, resume=True))


def load_tokenizer_of(corpus: Path, folder: Path) -> None:
    from greffe.tokenization import read_corpus, save_tokenizer, train_tokenizer

    save_tokenizer(train_tokenizer(read_corpus(corpus), 300), folder)


def test_settings_of_another_program_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"editor.tabSize": 4}')
    (tmp_path / "logs").mkdir()
    for resume in (False, True):
        with (
            pytest.raises(FileExistsError, match=r"found \['logs', 'settings.json'\]"),
            open_run(arguments(tmp_path, resume=resume)),
        ):
            pass
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "settings.json"}


def test_other_inputs_are_refused(tmp_path: Path) -> None:
    keep_inputs(tmp_path, {"train": "a", "test": "b"}, processes=2)
    keep_inputs(tmp_path, {"train": "a", "test": "b"}, processes=2)
    with pytest.raises(ValueError, match=r"expected 2 processes, .*, found 1; start as many"):
        keep_inputs(tmp_path, {"train": "a", "test": "b"}, processes=1)
    with pytest.raises(ValueError, match=r"expected the data that the run in .*, found changes in test, .*; restore"):
        keep_inputs(tmp_path, {"train": "a", "test": "c"}, processes=2)


def test_pretraining_does_not_go_on_with_another_corpus(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(tiny_corpus.read_text())
    record = pretrain(pretrain_options(corpus, tmp_path / "whole", max_steps=3))
    unfinish(tmp_path / "whole", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "inputs.json").read_text()) == {
        "fingerprints": {"corpus": record["data"]["fingerprint"]},
        "processes": 1,
    }
    corpus.write_text(tiny_corpus.read_text().replace("a", "o", 1))
    command = ["pretrain", *flags_of(pretrain_options(corpus, tmp_path / "run", max_steps=3, resume=True))]
    assert main(command) == 1
    assert "found changes in corpus, or in what reads it; restore" in capsys.readouterr().err
    assert list_checkpoints(tmp_path / "run")
    corpus.write_text(tiny_corpus.read_text())
    assert main(command) == 0


def test_finetuning_does_not_go_on_with_other_labels(tiny_base: Path, tmp_path: Path) -> None:
    rows = make_reviews(40, seed=1)
    test, data = write_rows(tmp_path / "test.jsonl", make_reviews(9, seed=2)), tmp_path / "rows.jsonl"
    changes = {"test": str(test), "num_train_epochs": 1}
    record = finetune(finetune_options(tiny_base, write_rows(data, rows), tmp_path / "whole", **changes))
    assert set(record["data"]["fingerprints"]) == {"train", "validation", "test"}
    unfinish(tmp_path / "whole", tmp_path / "run")
    other = {"négatif": "positif", "positif": "négatif"}
    write_rows(data, [*rows[:-1], {**rows[-1], "label": other[rows[-1]["label"]]}])
    with pytest.raises(ValueError, match=r"found changes in (train|validation)"):
        finetune(finetune_options(tiny_base, data, tmp_path / "run", resume=True, **changes))
    write_rows(data, rows)
    again = finetune(finetune_options(tiny_base, data, tmp_path / "run", resume=True, **changes))
    assert again["data"]["fingerprints"] == record["data"]["fingerprints"]


def test_a_finished_run_is_not_continued_and_no_failure(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loop that retries with --resume until it succeeds comes to an end."""
    folder = tmp_path / "run"
    record = pretrain(pretrain_options(tiny_corpus, folder, max_steps=3))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    capsys.readouterr()
    command = ["pretrain", *flags_of(pretrain_options(tiny_corpus, folder, max_steps=3, resume=True))]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.err == f"the run in {folder} is finished\n"
    assert f"loss {record['metrics']['loss']:.4g}" in said.out
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert main(["pretrain", *flags_of(pretrain_options(tiny_corpus, folder, max_steps=4, resume=True))]) == 1
    assert "max_steps=3 before, 4 now" in capsys.readouterr().err
