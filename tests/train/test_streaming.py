"""A corpus that is read while training goes on: the same rows, nothing on disk, and nothing that stops it shows."""

import json
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from greffe.tokenization import encode_documents, read_corpus, train_tokenizer
from greffe.train import streaming
from greffe.train.arguments import STREAMED_VALIDATION
from greffe.train.cli import main
from greffe.train.packing import DocumentRows, PackedRows, tokenize_corpus
from greffe.train.pretrain import pretrain
from greffe.train.streaming import StreamedRows, stream_corpus
from invented_text import make_documents
from processes import flags_of, kill_again_and_again, run_two_processes
from safetensors.torch import load_file
from tiny_stages import assert_same_weights, pretrain_options

TEXTS = make_documents(120, seed=3)
TOKENIZER = train_tokenizer(TEXTS, vocab_size=300)
DOCUMENTS = encode_documents(TOKENIZER, TEXTS)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read_ids() -> Iterator[dict[str, Any]]:
    return ({"input_ids": ids} for ids in DOCUMENTS)


def stream_rows(**changes: Any) -> StreamedRows:
    options = {"block_size": 16, "length": 10**6, "packing": True, "buffer_size": 50, "seed": 0}
    return StreamedRows(read_ids, **{**options, **changes})


def draws(rows: StreamedRows, number: int = 0) -> list[tuple[int, int]]:
    return [row["draw"] for row in rows.read_pass(number)]


@pytest.mark.parametrize("packing", [True, False])
def test_a_pass_has_the_rows_of_the_cache_each_once(packing: bool) -> None:
    dataset = datasets.Dataset.from_dict({"input_ids": DOCUMENTS})
    expected = (PackedRows if packing else DocumentRows)(dataset, 16)
    expected.epoch = 3
    rows = stream_rows(packing=packing)
    found = sorted(rows.read_pass(3), key=lambda row: row["draw"])
    assert [row["draw"] for row in found] == [(3, index) for index in range(len(expected))]
    for index, row in enumerate(found):
        assert row["input_ids"].tolist() == expected[index]["input_ids"].tolist()
    assert (rows.documents, rows.total_tokens) == (expected.documents, expected.total_tokens)
    assert rows.dropped_tokens == expected.dropped_tokens


def test_the_order_depends_on_seed_and_pass_alone() -> None:
    first = draws(stream_rows())
    assert first == draws(stream_rows())
    assert first != sorted(first)
    rows = stream_rows()
    later = [index for _, index in draws(rows, 1)]
    assert later == [index for _, index in draws(stream_rows(), 1)]
    assert later != [index for _, index in first]
    assert draws(stream_rows(seed=1)) != first
    everything = draws(stream_rows(buffer_size=10**6))
    assert everything != sorted(everything), "what fits into the buffer is shuffled too"


def test_no_row_comes_before_it_can_be_in_the_buffer() -> None:
    order = [index for _, index in draws(stream_rows(buffer_size=7))]
    ahead = [index - position for position, index in enumerate(order)]
    assert max(ahead) == 6
    assert min(ahead) < -6, "a row may wait longer than that"


def test_passes_follow_each_other_until_the_run_is_over() -> None:
    once = len(draws(stream_rows()))
    rows = stream_rows(length=2 * once + 5)
    assert len(rows) == 2 * once + 5
    found = [row["draw"] for row in rows]
    assert found == [*draws(rows, 0), *draws(rows, 1), *draws(rows, 2)[:5]]
    assert [row["draw"] for row in rows] == found, "a second reading is the same"


def test_streaming_takes_constant_memory() -> None:
    def read() -> Iterator[dict[str, Any]]:
        return ({"input_ids": [index % 300] * 100} for index in range(5000))

    rows = StreamedRows(read, 16, length=10**6, packing=True, buffer_size=100, seed=0)
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows.read_pass(0)) == 31_250  # 2 MB as they are on disk, 4 MB in lists
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300_000


@pytest.mark.parametrize("packing", [True, False])
def test_too_little_text_is_refused(packing: bool) -> None:
    def read() -> Iterator[dict[str, Any]]:
        return ({"input_ids": [0, 5, 2]} for _ in range(2 if packing else 0))

    rows = StreamedRows(read, 16, length=8, packing=packing, buffer_size=4, seed=0)
    with pytest.raises(ValueError, match=r"expected at least one row of block_size=16 tokens, found [60] tokens"):
        list(rows)


def test_the_parts_are_those_of_the_cache(corpus: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STREAMED_VALIDATION", 7)
    streamed = stream_corpus(read_corpus(corpus), TOKENIZER, 0.2, seed=0)
    assert not cache.exists(), "nothing is written"
    cached = tokenize_corpus(read_corpus(corpus), TOKENIZER, 0.2, seed=0)
    assert [row["input_ids"] for row in streamed.train()] == cached.train["input_ids"][:]
    assert len(cached.validation) > 7
    assert streamed.validation.to_dict() == cached.validation[:7]
    assert streamed.fingerprint == cached.fingerprint
    assert len(stream_corpus(read_corpus(corpus), TOKENIZER, 0.0, seed=0).validation) == 0


def test_validation_ends_as_soon_as_it_has_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long.txt").write_text("\n".join(f"texte {index}" for index in range(20_000)))
    monkeypatch.setattr(streaming, "STREAMED_VALIDATION", 10)
    text = read_corpus(tmp_path / "long.txt")
    assert len(stream_corpus(text, TOKENIZER, 0.5, seed=0).validation) == 10
    assert text.bytes_read < text.total_bytes / 2


# The stage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "packing"), [("causal", True), ("masked", True), ("hybrid", False)])
def test_learns_and_writes_no_copy_of_the_corpus(
    objective: str, packing: bool, corpus: Path, tmp_path: Path, cache: Path
) -> None:
    changes = {"objective": objective, "packing": packing, "learning_rate": 1e-2, "hidden_dropout": 0.0}
    changes |= {"eval_steps": 100, "save_steps": 100, "streaming": True, "shuffle_buffer": 100}
    before = pretrain(pretrain_options(corpus, tmp_path / "few", **changes, max_steps=1))
    after = pretrain(pretrain_options(corpus, tmp_path / "many", **changes, max_steps=80))
    assert all(after["metrics"][name] < before["metrics"][name] for name in before["metrics"])
    assert before["data"]["documents"] is None, "no pass was over"
    assert after["data"]["documents"] + after["data"]["validation_documents"] == len(TEXTS)
    assert not cache.exists()


def test_validates_on_the_documents_of_a_cached_run(corpus: Path, tmp_path: Path) -> None:
    changes = {"max_steps": 1, "learning_rate": 0.0}
    cached = pretrain(pretrain_options(corpus, tmp_path / "cached", **changes))
    streamed = pretrain(pretrain_options(corpus, tmp_path / "streamed", **changes, streaming=True))
    assert streamed["metrics"] == cached["metrics"]
    assert streamed["data"]["fingerprint"] == cached["data"]["fingerprint"]


def test_killed_again_and_again_gives_the_same_weights(corpus: Path, tmp_path: Path) -> None:
    """Over several passes; dropout on, with accumulation and masks."""
    changes = {"objective": "hybrid", "max_steps": 90, "save_steps": 10, "eval_steps": 50}
    changes |= {"streaming": True, "shuffle_buffer": 100}
    whole = pretrain(pretrain_options(corpus, tmp_path / "whole", **changes))
    assert whole["tokens_seen"] == 90 * 8 * 16 > 2 * whole["data"]["tokens"]
    seen = kill_again_and_again("pretrain", pretrain_options(corpus, tmp_path / "killed", **changes), tmp_path, kills=3)
    assert len(set(seen)) > 1, "the kills all fell before the first checkpoint"
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert json.loads((tmp_path / "killed" / "greffe.json").read_text())["tokens_seen"] == whole["tokens_seen"]


@pytest.mark.parametrize("checkpoint", [9, 12])
def test_resumes_rows_of_different_lengths(checkpoint: int, corpus: Path, tmp_path: Path) -> None:
    """Also from the checkpoint of the last step, which leaves nothing to train."""
    folder = tmp_path / "run"
    changes = {"objective": "hybrid", "packing": False, "streaming": True}
    record = pretrain(pretrain_options(corpus, folder, **changes))
    shutil.copytree(folder, tmp_path / "whole")
    for name in ("greffe.json", "model.safetensors"):  # as if it had been stopped before its end
        (folder / name).unlink()
    if checkpoint < 12:
        shutil.rmtree(folder / "checkpoint-12")
    again = pretrain(pretrain_options(corpus, folder, **changes, resume=True))
    assert_same_weights(tmp_path / "whole", folder)
    assert (again["steps"], again["tokens_seen"]) == (record["steps"], record["tokens_seen"])


def test_two_processes_give_what_one_gives(corpus: Path, tmp_path: Path) -> None:
    """Rows of different lengths and masks, over the end of a pass."""
    changes = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "gradient_accumulation_steps": 1, "max_steps": 60}
    changes |= {"eval_steps": 100, "save_steps": 100}
    changes |= {"objective": "hybrid", "packing": False, "streaming": True, "shuffle_buffer": 100}
    one = pretrain(pretrain_options(corpus, tmp_path / "one", per_device_train_batch_size=8, **changes))
    assert one["data"]["documents"] is not None, "the first pass is over"
    options = pretrain_options(corpus, tmp_path / "two", per_device_train_batch_size=4, **changes)
    run_two_processes("pretrain", options, tmp_path)
    two = json.loads((tmp_path / "two" / "greffe.json").read_text())
    assert two["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], rel=1e-5)
    assert two["tokens_seen"] == one["tokens_seen"]
    expected = load_file(tmp_path / "one" / "model.safetensors")
    for name, value in load_file(tmp_path / "two" / "model.safetensors").items():
        torch.testing.assert_close(value, expected[name], atol=2e-5, rtol=1e-4, msg=name)


def test_ends_by_the_clock(corpus: Path, tmp_path: Path) -> None:
    options = pretrain_options(corpus, tmp_path / "run", max_steps=-1, max_minutes=0.01, streaming=True)
    assert 0 < pretrain(options)["steps"] < 10_000


def test_a_run_without_an_end_is_refused(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = pretrain_options(corpus, tmp_path / "run", max_steps=-1, streaming=True)
    assert main(["pretrain", *flags_of(options)]) == 1
    assert "expected --max_steps or --max_minutes with --streaming, found neither" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_help_tells_how_much_validates(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    assert f"the first {STREAMED_VALIDATION:,} are used" in " ".join(capsys.readouterr().out.split())
