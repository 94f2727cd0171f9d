"""A full disk: one clear line, the last complete checkpoint usable, nothing that looks like a model but is none."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from environments import run_python
from greffe.modeling import GreffeForCausalLM
from greffe.tokenization import load_tokenizer
from greffe.train.arguments import PretrainArguments
from greffe.train.checkpoints import list_checkpoints
from greffe.train.finetune import finetune
from greffe.train.full_disk import FullDiskError, explain_full_disk
from greffe.train.pretrain import pretrain
from greffe.train.run_folder import write_model
from processes import flags_of
from tiny_stages import assert_same_weights, finetune_options, pretrain_options, unfinish

SMALL_DISK = Path(__file__).parents[1] / "support" / "small_disk.py"


PAGE = 4096  # a file takes whole pages


@pytest.fixture(scope="module")
def pretrained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainArguments:
    """A run that nothing stopped. Every checkpoint is kept, so that the model at the end needs the most room."""
    arguments = pretrain_options(tiny_corpus, tmp_path_factory.mktemp("whole") / "pretrain", save_total_limit=100)
    pretrain(arguments)
    return arguments


def room(paths: Iterable[Path]) -> int:
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in paths if path.is_file())


def run_on_small_disks(arguments: Any, stage: str, kept_beside: int, tmp_path: Path) -> None:
    """The disk is full at the first checkpoint, at the third, and when the model is written."""
    whole = Path(arguments.output)
    checkpoints = list_checkpoints(whole)
    at_the_end = room(path for path in whole.iterdir() if path.name not in ("settings.json", "inputs.json"))
    before = room(whole.rglob("*")) - at_the_end + kept_beside
    checkpoint = room(checkpoints[0].iterdir())
    sizes = [checkpoint * 8 // 10, checkpoint * 25 // 10 + kept_beside, before + at_the_end // 2]
    flags = flags_of(arguments)
    place = flags.index("--output")
    command = [stage, *flags[:place], *flags[place + 2 :]]
    for result in run_small_disk({"disk": str(tmp_path / "disk"), "command": command, "sizes": sizes}, tmp_path):
        check(result, whole, tmp_path)
        expected = {0: 0, 1: 2, 2: len(checkpoints)}[sizes.index(result["size"])]
        assert len(result["checkpoints"]) == expected, result


def run_small_disk(scenario: dict[str, Any], tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))
    try:  # a namespace of its own: the mount is gone with the process
        done = subprocess.run(
            ["unshare", "--mount", "--map-root-user", sys.executable, SMALL_DISK, tmp_path / "scenario.json"],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if done.stderr.startswith("unshare:") or done.stdout.splitlines()[-1:] == ["null"]:
        pytest.skip("this system does not let tests mount")
    assert done.returncode == 0, done.stderr[-3000:]
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


def check(result: dict[str, Any], whole: Path, tmp_path: Path) -> None:
    assert result["code"] == 1, result
    (line,) = result["lines"]
    assert line.startswith(f"greffe: error: expected room in {tmp_path / 'disk' / 'run'}, found the disk full (")
    assert line.endswith("; free some space and continue with --resume")
    assert result["faults"] == []
    assert not [name for name in result["left"] if name.endswith((".partial", ".stale"))]
    assert not {"greffe.json", "config.json", "model.safetensors"} & set(result["left"])
    if result["checkpoints"]:
        assert f"continuing from {result['checkpoints'][-1]}" in result["said"]
    else:
        assert result["left"] == []
    assert result["resumed"] == 0
    assert_same_weights(whole, tmp_path / f"kept-{result['size']}")


def test_pretraining_on_a_disk_that_is_too_small(pretrained: PretrainArguments, tmp_path: Path) -> None:
    run_on_small_disks(pretrained, "pretrain", 0, tmp_path)


def test_finetuning_on_a_disk_that_is_too_small(tiny_base: Path, labelled: Path, tmp_path: Path) -> None:
    arguments = finetune_options(tiny_base, labelled, tmp_path / "finetune", save_total_limit=100)
    finetune(arguments)
    best_epoch = room([tmp_path / "finetune" / "model.safetensors"])
    run_on_small_disks(arguments, "finetune", best_epoch, tmp_path)


def test_a_disk_that_fills_up_after_a_checkpoint(pretrained: PretrainArguments, tmp_path: Path) -> None:
    """Where nothing can be mounted: the limit of a file's size fails a write half-way, as a full disk does."""
    folder = tmp_path / "run"
    unfinish(Path(pretrained.output), folder)
    (folder / "checkpoint-12" / "manifest.json").unlink()  # as if it had been stopped at step 9
    flags = flags_of(replace(pretrained, output=str(folder), resume=True))
    code = f"""
import json, resource
from greffe.train.cli import main
results = []
for limit in (100_000, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    results.append(main(["pretrain", *{flags!r}]))
print(json.dumps(results))
"""
    assert run_python(sys.executable, code, tmp_path) == [1, 0]
    assert_same_weights(Path(pretrained.output), folder)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        Exception("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
        RuntimeError("basic_ios::clear: iostream error"),
    ],
)
def test_a_full_disk_by_any_name(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(FullDiskError, match="found the disk full"), explain_full_disk(tmp_path):
        raise error
    wrapped = ValueError("could not save")
    wrapped.__cause__ = error
    with pytest.raises(FullDiskError, match="found the disk full"), explain_full_disk(tmp_path):
        raise wrapped


def test_the_disk_of_the_cache_is_named(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenised corpus is not written to --output: to free space there would be no help."""
    import datasets

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.arrow_writer.ArrowWriter, "write_table", fail)
    message = f"expected room in {tmp_path / 'cache'}, found the disk full .*; free some space, set HF_DATASETS_CACHE"
    with pytest.raises(FullDiskError, match=message):
        pretrain(pretrain_options(tiny_corpus, tmp_path / "run"))


def test_what_was_raised_in_place_of_another_error_is_looked_at_alone(tmp_path: Path) -> None:
    """The error that it takes the place of may name it as its cause: a circle."""
    error = ValueError("bad text")
    error.__context__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(ValueError, match="bad text"), explain_full_disk(tmp_path):
        raise error from None


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="denied"), explain_full_disk(tmp_path):
        raise PermissionError("denied")


@pytest.mark.parametrize("stuck", ["tokenizer.json", "model.safetensors", "config.json"])
def test_a_model_that_was_not_written_whole_is_none(stuck: str, tiny_base: Path, tmp_path: Path) -> None:
    """Its files get their places one by one; whichever is the last that does, nobody takes the folder for a model."""
    model, tokenizer = GreffeForCausalLM.from_pretrained(tiny_base), load_tokenizer(tiny_base)
    (tmp_path / stuck).mkdir()
    with pytest.raises(IsADirectoryError):
        write_model(tmp_path, model, tokenizer, {"stage": "pretrain"})
    assert not (tmp_path / "greffe.json").exists()
    assert not (tmp_path / "config.json").is_file()
    assert not (tmp_path / ".model.partial").exists()
    (tmp_path / stuck).rmdir()
    write_model(tmp_path, model, tokenizer, {"stage": "pretrain"})
    assert_same_weights(tiny_base, tmp_path)
    assert json.loads((tmp_path / "greffe.json").read_text())["stage"] == "pretrain"
