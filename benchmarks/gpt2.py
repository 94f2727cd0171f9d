"""The peer that most people would take: GPT-2 of the same sizes in transformers, run as its example scripts run it.

Pre-training is `run_clm`: texts are concatenated and cut into blocks by `datasets.map`, batches come from the default
collator, `Trainer` has its own defaults (fp32, AdamW). Fine-tuning and prediction are `run_glue`: every text is padded
to the longest length allowed, which is that script's default; or to the longest of its batch, as with that script's
`--pad_to_max_length False`.

Sizes are the same, matrix by matrix, and the head is tied where Greffe's is; dropout is 0, as in Greffe. What makes it
GPT-2 stays: learned positions, norms before each block, gelu_new, no bias in the head.
"""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import (
    AutoTokenizer,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    default_data_collator,
    pipeline,
    set_seed,
)

from .gate import StepCounter
from .ours import read_prompts
from .text import LABELS
from .trainer_steps import count_steps
from .workload import Workload, read_labelled_lines

_NEVER = 10**6
_POSITIONS = 1024  # GPT-2's own: the longest text


def pretrain(gate: StepCounter, workload: Workload) -> None:
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    blocks = make_blocks(workload.corpus, tokenizer, workload.block_size, workload.folder / "gpt2-cache")
    set_seed(0)
    trainer = Trainer(
        GPT2LMHeadModel(make_config(workload, tokenizer)),
        _training_arguments(workload, max_steps=_NEVER),
        train_dataset=blocks,
        processing_class=tokenizer,
        data_collator=default_data_collator,
    )
    count_steps(trainer, gate, workload.size, head=True)
    trainer.train()


def make_blocks(corpus: Path, tokenizer: Any, block_size: int, cache: Path) -> Any:
    """A text file into rows of `block_size` tokens, with the labels that the model wants."""
    texts = datasets.load_dataset("text", data_files=str(corpus), split="train", cache_dir=str(cache))

    def concatenate(columns: dict[str, Any]) -> dict[str, Any]:
        rows = {}
        for name, lists in columns.items():
            joined = list(chain.from_iterable(lists))
            whole = len(joined) - len(joined) % block_size  # the rest of each thousand texts is dropped
            rows[name] = [joined[start : start + block_size] for start in range(0, whole, block_size)]
        return {**rows, "labels": [list(row) for row in rows["input_ids"]]}

    tokenized = texts.map(lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=["text"])
    return tokenized.map(concatenate, batched=True)


def finetune(gate: StepCounter, workload: Workload, padding: str) -> None:
    """`padding` is "max_length", or "longest" of the batch. A slice is an epoch."""
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    texts, labels = read_labelled_lines(workload.labelled)
    rows = datasets.Dataset.from_dict({**_encode(texts, tokenizer, workload, padding), "label": labels})
    set_seed(0)
    trainer = Trainer(
        GPT2ForSequenceClassification(make_config(workload, tokenizer)),
        _training_arguments(workload, num_train_epochs=_NEVER),
        train_dataset=rows,
        processing_class=tokenizer,
        data_collator=_collator(tokenizer, padding),
    )
    count_steps(trainer, gate, workload.size, head=False)
    trainer.train()


def classify(gate: StepCounter, workload: Workload, padding: str) -> None:
    """`Trainer.predict`, from texts to logits; a step is all texts."""
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    texts, _ = read_labelled_lines(workload.labelled)
    set_seed(0)
    trainer = Trainer(
        GPT2ForSequenceClassification(make_config(workload, tokenizer)),
        _training_arguments(workload, per_device_eval_batch_size=32),
        processing_class=tokenizer,
        data_collator=_collator(tokenizer, padding),
    )
    while True:
        trainer.predict(datasets.Dataset.from_dict(_encode(texts, tokenizer, workload, padding)))
        gate.step(texts=len(texts))


def classify_one(gate: StepCounter, workload: Workload) -> None:
    """`pipeline`, a text at a time."""
    classifier = pipeline("text-classification", model=str(save_classifier(workload)))
    texts, _ = read_labelled_lines(workload.labelled)
    while True:
        for text in texts[: workload.steps]:
            classifier(text, truncation=True, max_length=workload.block_size)
            gate.step(texts=1)


def generate(gate: StepCounter, workload: Workload, prompts: int, new_tokens: int) -> None:
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    set_seed(0)
    model = GPT2LMHeadModel(make_config(workload, tokenizer)).eval()
    ids = torch.tensor(read_prompts(workload, tokenizer, prompts))
    mask = torch.ones_like(ids)
    while True:
        model.generate(
            ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=False, use_cache=True, eos_token_id=None
        )
        gate.step(tokens=prompts * new_tokens)


def prepare_corpus(gate: StepCounter, workload: Workload) -> None:
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    megabytes = workload.corpus.stat().st_size / 1e6
    while True:
        with tempfile.TemporaryDirectory(dir=workload.folder) as cache:
            blocks = make_blocks(workload.corpus, tokenizer, workload.block_size, Path(cache))
            gate.step(megabytes=megabytes, tokens=len(blocks) * workload.block_size)


def make_config(workload: Workload, tokenizer: Any) -> GPT2Config:
    size = workload.size
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=_POSITIONS,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.feed_forward,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=size.tied,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config.num_labels = len(LABELS)
    return config


def save_classifier(workload: Workload) -> Path:
    tokenizer = AutoTokenizer.from_pretrained(workload.tokenizer)
    set_seed(0)
    folder = Path(tempfile.mkdtemp(dir=workload.folder))
    GPT2ForSequenceClassification(make_config(workload, tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _training_arguments(workload: Workload, **options: Any) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(workload.folder / "gpt2"),
        per_device_train_batch_size=workload.batch_size,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        **options,
    )


def _encode(texts: list[str], tokenizer: Any, workload: Workload, padding: str) -> dict[str, Any]:
    return dict(
        tokenizer(
            texts,
            padding="max_length" if padding == "max_length" else False,
            max_length=workload.block_size,
            truncation=True,
        )
    )


def _collator(tokenizer: Any, padding: str) -> Any:
    return default_data_collator if padding == "max_length" else DataCollatorWithPadding(tokenizer)


__all__ = [
    "classify",
    "classify_one",
    "finetune",
    "generate",
    "make_blocks",
    "make_config",
    "prepare_corpus",
    "pretrain",
    "save_classifier",
]
