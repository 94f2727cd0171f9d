"""Rows of single documents, as the reference experiment has them: padded, and with the loss of packed ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from greffe.modeling import GreffeForCausalLM
from greffe.tokenization import load_tokenizer, read_corpus
from greffe.train.cli import main
from greffe.train.objectives import IGNORED, RowCollator
from greffe.train.packing import DocumentRows, PackedRows, cut_documents, tokenize_corpus
from greffe.train.pretrain import pretrain
from greffe.train.stage_trainer import EpochSampler
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import flags_of
from tiny_models import random_ids, tiny_config
from tiny_stages import assert_same_weights, pretrain_options

BOS, PAD, EOS, MASK = 0, 1, 2, 3


def collator(objective: str, pad_token_id: int | None = PAD) -> RowCollator:
    return RowCollator(
        objective=objective, mask_probability=0.3, masked_share=0.5, cross_document_attention=False, bos_token_id=BOS,
        mask_token_id=MASK, special_ids=(BOS, PAD, EOS, MASK), vocab_size=97, seed=0, pad_token_id=pad_token_id,
    )  # fmt: skip


def make_ids(*lengths: int) -> list[list[int]]:
    return [[BOS, *random_ids(1, length - 2)[0].tolist(), EOS] for length in lengths]


def make_rows(documents: list[list[int]]) -> list[dict[str, Any]]:
    return [{"input_ids": np.array(ids), "draw": (0, index)} for index, ids in enumerate(documents)]


@settings(deadline=None)  # making a dataset takes its time
@given(
    documents=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=30), min_size=1, max_size=9),
    block_size=st.integers(2, 12),
    chunk=st.integers(1, 5),
)
def test_rows_are_the_documents_cut(documents: list[list[int]], block_size: int, chunk: int) -> None:
    parts = [documents[start : start + chunk] for start in range(0, len(documents), chunk)]
    dataset = datasets.concatenate_datasets([datasets.Dataset.from_dict({"input_ids": part}) for part in parts])
    rows = DocumentRows(dataset, block_size)
    expected = [row.tolist() for row in cut_documents(documents, block_size)]
    assert [rows[index]["input_ids"].tolist() for index in range(len(rows))] == expected
    assert (rows.documents, rows.total_tokens) == (len(documents), sum(map(len, documents)))
    rows.epoch = 2
    assert rows[len(rows) - 1]["draw"] == (2, len(rows) - 1)


def test_a_batch_is_padded_on_the_right_and_padding_is_ignored() -> None:
    batch = collator("causal")(make_rows([[BOS, 7, 8, EOS], [BOS, 9, EOS], [8, 9]]))
    assert batch["input_ids"].tolist() == [[BOS, 7, 8, EOS], [BOS, 9, EOS, PAD], [8, 9, PAD, PAD]]
    ignored = IGNORED
    assert batch["labels"].tolist() == [[ignored, 7, 8, EOS], [ignored, 9, EOS, ignored], [8, 9, ignored, ignored]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]
    assert "position_ids" not in batch


@pytest.mark.parametrize("objective", ["masked", "hybrid"])
def test_masks_do_not_depend_on_the_padding(objective: str) -> None:
    rows = make_rows(make_ids(30, 9, 17))
    together = collator(objective)(rows)
    for index, row in enumerate(rows):
        alone = collator(objective)([row])
        length = len(row["input_ids"])
        for name in ("input_ids", "labels"):
            assert torch.equal(together[name][index, :length], alone[name][0])


def test_the_loss_is_that_of_each_document_alone_and_of_packed_rows() -> None:
    """Documents that fill packed rows exactly, so that both see the same contexts."""
    documents = make_ids(5, 11, 9, 7, 16)
    model = GreffeForCausalLM(tiny_config()).train()
    unpacked = model(**collator("causal")(make_rows(documents))).loss
    nats = sum(model(torch.tensor([ids]), labels=torch.tensor([ids])).loss * (len(ids) - 1) for ids in documents)
    torch.testing.assert_close(unpacked, nats / sum(len(ids) - 1 for ids in documents))
    packed_rows = PackedRows(datasets.Dataset.from_dict({"input_ids": documents}), 16)
    packed = model(**collator("causal", None)([packed_rows[index] for index in range(3)])).loss
    torch.testing.assert_close(unpacked, packed)


# The stage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["causal", "masked", "hybrid"])
def test_learns(objective: str, tiny_corpus: Path, tmp_path: Path) -> None:
    changes = {"objective": objective, "packing": False, "learning_rate": 1e-2, "eval_steps": 100, "save_steps": 100}
    before = pretrain(pretrain_options(tiny_corpus, tmp_path / "few", **changes, max_steps=1))["metrics"]
    after = pretrain(pretrain_options(tiny_corpus, tmp_path / "many", **changes, max_steps=60))["metrics"]
    assert all(after[name] < before[name] for name in before)


def test_an_epoch_is_every_document_once_and_its_tokens_are_counted(tiny_corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    changes = {"packing": False, "max_steps": -1, "num_train_epochs": 1.0, "eval_steps": 1000, "save_steps": 1000}
    record = pretrain(pretrain_options(tiny_corpus, folder, **changes))
    documents = tokenize_corpus(read_corpus(tiny_corpus), load_tokenizer(folder), 0.1, 0)
    rows = DocumentRows(documents.train, 16)
    order = list(EpochSampler(len(rows), 8, 0))
    assert set(order) == set(range(len(rows)))
    assert record["steps"] == len(order) // 8
    assert record["tokens_seen"] == sum(len(rows[index]["input_ids"]) for index in order)
    assert record["data"]["tokens"] == sum(map(len, documents.train["input_ids"]))
    assert record["data"]["dropped_tokens"] == 0


def test_resumed_it_ends_with_the_same_weights(tiny_corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    record = pretrain(pretrain_options(tiny_corpus, folder, packing=False))
    shutil.copytree(folder, tmp_path / "whole")
    for name in ("greffe.json", "model.safetensors"):  # as if it had been stopped before its end
        (folder / name).unlink()
    shutil.rmtree(folder / "checkpoint-12")
    assert (
        pretrain(pretrain_options(tiny_corpus, folder, packing=False, resume=True))["tokens_seen"]
        == record["tokens_seen"]
    )
    assert_same_weights(tmp_path / "whole", folder)


def test_packed_rows_count_their_tokens_too(tiny_corpus: Path, tmp_path: Path) -> None:
    pretrain(pretrain_options(tiny_corpus, tmp_path / "run", max_steps=5, objective="masked"))
    assert json.loads((tmp_path / "run" / "greffe.json").read_text())["tokens_seen"] == 5 * 8 * 16


def test_the_flag_and_what_it_excludes(tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = flags_of(pretrain_options(tiny_corpus, tmp_path / "run", cross_document_attention=True))
    packing = flags.index("--packing")
    assert main(["pretrain", *flags[:packing], "--no_packing", *flags[packing + 2 :]]) == 1
    assert "expected packed rows with --cross_document_attention, found --no_packing" in capsys.readouterr().err
