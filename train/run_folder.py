"""The folder of a run: one run at a time, its settings from the start, its model and record at the end."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from greffe.hub.cards import CARD, is_replaceable, make_card
from greffe.tokenization.output_folder import sync

from .arguments import StageArguments
from .checkpoints import latest_complete_checkpoint, list_checkpoints, remove_leftovers
from .full_disk import explain_full_disk

SETTINGS = "settings.json"  # of the run, written before its first step
INPUTS = "inputs.json"  # what the run learns from and on how many processes, written when that is known
RECORD = "greffe.json"  # of the finished model: what made it, from what, with which result
TOKENIZER = "tokenizer"  # the one that was learned on the way
BEST_WEIGHTS = "best.safetensors"  # of the best evaluation so far
LOGS = "logs"  # of TensorBoard
_LOCK = ".lock"
# Options that may differ when a run is continued: they change when it stops or what it keeps, not what it computes.
_FREE_ON_RESUME = {"resume", "output", "max_minutes", "save_total_limit", "save_steps", "tensorboard"}


@contextmanager
def open_run(arguments: StageArguments) -> Iterator[Path]:
    """The folder, held by this run alone; refused when it holds something else, or a run and no `--resume`."""
    folder = Path(arguments.output)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"expected a folder at --output, found the file {folder}")
    is_new = not folder.exists() or not any(folder.iterdir())
    if not is_new:
        _refuse_foreign(folder)  # where not even a lock should be left behind
    with _hold(folder):
        try:
            with explain_full_disk(folder):
                _check_content(folder, arguments)
                remove_leftovers(folder)
                if not list_checkpoints(folder):
                    _remove_traces(folder)
                write_json(folder / SETTINGS, asdict(arguments))
                yield folder
        except BaseException:
            if is_new and not list_checkpoints(folder):  # nothing to continue from: as if it had not been started
                shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def hold_folder(folder: Path, own: set[str]) -> Iterator[None]:
    """A folder that only this process writes to, and that holds nothing but files of these names.

    What a killed process was writing, `.NAME.partial`, counts as one of them: it is written anew.
    """
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"expected a folder at --output, found the file {folder}")
    is_new = not folder.exists()
    with _hold(folder):
        known = {*own, *(f".{name}.partial" for name in own), _LOCK}
        foreign = sorted({path.name for path in folder.iterdir()} - known)
        if foreign:
            raise FileExistsError(f"expected a new or empty folder, found {foreign[:5]} in {folder}; choose another")
        try:
            yield
        except BaseException:
            if is_new and not {path.name for path in folder.iterdir()} - {_LOCK}:
                shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(
            f"expected a folder of its own, found {folder} in use by another run; choose another --output"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _refuse_foreign(folder: Path) -> None:
    content = {path.name for path in folder.iterdir()} - {_LOCK}
    if RECORD in content:
        raise FileExistsError(f"expected a new folder, found a finished model in {folder}; choose another --output")
    if content and not _holds_run(folder):
        raise FileExistsError(
            f"expected a new or empty folder, found {sorted(content)[:5]} in {folder}; choose another --output"
        )


def _holds_run(folder: Path) -> bool:
    """Whether the settings are those of a run: other programs have files of this name too."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and {"output", "resume", "save_total_limit"} <= set(settings)


def _check_content(folder: Path, arguments: StageArguments) -> None:
    _refuse_foreign(folder)
    if list_checkpoints(folder) and not arguments.resume:
        raise FileExistsError(f"expected a new folder, found a run in {folder}; pass --resume to continue it")
    if (folder / SETTINGS).exists() and arguments.resume:
        _check_settings(folder, arguments)


def _remove_traces(folder: Path) -> None:
    """What a run that was killed before its first checkpoint had made of data and options, which may be others now."""
    for path in (folder / name for name in (INPUTS, TOKENIZER, BEST_WEIGHTS, LOGS)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _check_settings(folder: Path, arguments: StageArguments) -> None:
    before, now = json.loads((folder / SETTINGS).read_text(encoding="utf-8")), asdict(arguments)
    changed = [
        f"{name}={before.get(name)!r} before, {value!r} now"
        for name, value in json.loads(json.dumps(now)).items()
        if name not in _FREE_ON_RESUME and before.get(name) != value
    ]
    if changed:
        raise ValueError(f"expected the options that the run in {folder} was started with, found {'; '.join(changed)}")


def keep_inputs(folder: Path, fingerprints: dict[str, str], processes: int) -> None:
    """Remember what a run learns from and on how many processes, or refuse to go on with something else."""
    path = folder / INPUTS
    if path.exists():
        before = json.loads(path.read_text())
        if before["processes"] != processes:
            raise ValueError(
                f"expected {before['processes']} processes, with which the run in {folder} was started, found "
                f"{processes}; start as many, or choose another --output"
            )
        changed = [name for name, value in fingerprints.items() if before["fingerprints"].get(name) != value]
        if changed:
            raise ValueError(
                f"expected the data that the run in {folder} was started with, found changes in {', '.join(changed)}, "
                "or in what reads it; restore what it was, or choose another --output"
            )
    write_json(path, {"fingerprints": fingerprints, "processes": processes})


def read_finished(arguments: StageArguments) -> dict[str, Any] | None:
    """The record of the run that `--resume` asks for, if there is nothing left to do in it."""
    folder = Path(arguments.output)
    if not (arguments.resume and (folder / SETTINGS).is_file() and (folder / RECORD).is_file()):
        return None
    _check_settings(folder, arguments)
    return dict(json.loads((folder / RECORD).read_text(encoding="utf-8")))


def tell_remedy(folder: Path) -> str:
    """What to do when a run was stopped: that depends on what it had saved."""
    return "continue with --resume" if list_checkpoints(folder) else "nothing was saved: start it again"


def find_checkpoint(folder: Path, resume: bool) -> tuple[Path | None, list[str]]:
    """What to continue from, and lines that say so: the checkpoint that was taken and those that were not."""
    if not resume:
        return None, []
    checkpoint, skipped = latest_complete_checkpoint(folder)
    taken = (
        "no complete checkpoint found: starting anew" if checkpoint is None else f"continuing from {checkpoint.name}"
    )
    return checkpoint, [*skipped, taken]


def write_model(folder: Path, model: Any, tokenizer: Any, record: dict[str, Any]) -> None:
    """The end of a run: the model, its tokenizer, its card and its record.

    All is written aside and synced before the first file gets its place. The configuration, without which a folder is
    no model, comes next to last, and the record last: where it stands, the model is whole.
    """
    partial = folder / ".model.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        write_json(partial / RECORD, {**record, "versions": describe_versions()})
        if not (folder / CARD).exists() or is_replaceable(folder / CARD):
            files = {path.name: path for path in partial.iterdir()}
            (partial / CARD).write_text(make_card(folder.resolve().name, files, in_hub=False), encoding="utf-8")
        for path in [*partial.iterdir(), partial]:
            sync(path)
        last = ("config.json", RECORD)
        for path in sorted(partial.iterdir(), key=lambda path: last.index(path.name) if path.name in last else -1):
            path.replace(folder / path.name)
        sync(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def describe_versions() -> dict[str, str]:
    packages = ("greffe", "torch", "transformers", "tokenizers", "datasets", "accelerate")
    return {name: _version(name) for name in packages}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def describe_base(folder: Path) -> dict[str, str]:
    """A pointer to the model that was continued: where it was, and the hash of its weights."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return {"path": str(folder), "sha256": digest.hexdigest()}


def total_pretraining(folder: Path) -> dict[str, float] | None:
    """Seconds, steps and tokens that went into a language model, those of the models it continues included; None where
    the folder has no record of it."""
    if not (folder / RECORD).is_file():
        return None
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if record.get("stage") != "pretrain":
        return None
    before = (record.get("base_model") or {}).get("pretraining") or {}
    return {name: (record.get(name) or 0) + before.get(name, 0) for name in ("seconds", "steps", "tokens_seen")}


def describe_machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "processors": os.cpu_count(), "platform": platform.platform()}


def write_json(path: Path, content: Any, indent: int | None = 1) -> None:
    """Write a file that is whole or as it was."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=indent, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


__all__ = [
    "BEST_WEIGHTS",
    "INPUTS",
    "LOGS",
    "RECORD",
    "SETTINGS",
    "TOKENIZER",
    "describe_base",
    "describe_machine",
    "describe_versions",
    "find_checkpoint",
    "hold_folder",
    "keep_inputs",
    "open_run",
    "read_finished",
    "tell_remedy",
    "total_pretraining",
    "write_json",
    "write_model",
]
