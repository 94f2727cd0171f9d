"""Both stages at their smallest, with dropout and accumulation: whatever could differ between two runs is in them.

bf16 is off: what is computed shall not depend on the processor.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from greffe.train.arguments import FinetuneArguments, PretrainArguments
from safetensors.torch import load_file


def use_cache(folder: Path) -> None:
    """Keep tokenised corpora here, and not in the user's cache; for this process and those that it starts."""
    import datasets

    datasets.config.HF_DATASETS_CACHE = folder
    os.environ["HF_DATASETS_CACHE"] = str(folder)


def pretrain_options(corpus: Path, output: Path, **changes: Any) -> PretrainArguments:
    values: dict[str, Any] = {
        "corpus": [str(corpus)], "output": str(output), "tokenizer_vocab_size": 300, "hidden_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "block_size": 16,
        "per_device_train_batch_size": 4, "max_steps": 12, "eval_steps": 6, "save_steps": 3, "hidden_dropout": 0.1,
        "attention_dropout": 0.1, "gradient_accumulation_steps": 2, "validation_fraction": 0.1, "bf16": "off",
    }  # fmt: skip
    return PretrainArguments(**{**values, **changes})


def finetune_options(model: Path, train: Path, output: Path, **changes: Any) -> FinetuneArguments:
    values: dict[str, Any] = {
        "model": str(model), "train": str(train), "output": str(output), "num_train_epochs": 3.0, "max_length": 32,
        "per_device_train_batch_size": 4, "learning_rate": 1e-2, "validation_fraction": 0.2, "hidden_dropout": 0.1,
        "attention_dropout": 0.1, "classifier_dropout": 0.1, "gradient_accumulation_steps": 2, "bf16": "off",
    }  # fmt: skip
    return FinetuneArguments(**{**values, **changes})


def unfinish(whole: Path, folder: Path) -> None:
    """A copy of a run, as if it had been killed after its last checkpoint."""
    shutil.copytree(whole, folder)
    for name in ("greffe.json", "config.json", "model.safetensors"):
        (folder / name).unlink()


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert set(found) == set(expected)
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name
