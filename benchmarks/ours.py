"""Greffe as its users run it: the two stages, the classifier, the language model, with their defaults."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from accelerate import PartialState
from greffe.inference import load_classifier, load_language_model
from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification
from greffe.tokenization import load_tokenizer, read_corpus, train_tokenizer
from greffe.train import finetune as stage_two
from greffe.train import pretrain as stage_one
from greffe.train import spectral
from greffe.train.arguments import FinetuneArguments, PretrainArguments
from greffe.train.labelled_data import read_labelled
from greffe.train.labels import collect_labels
from greffe.train.packing import PackedRows, tokenize_corpus
from transformers import set_seed
from transformers.trainer_utils import IntervalStrategy

from .gate import StepCounter
from .text import LABELS
from .trainer_steps import count_steps
from .workload import Workload, read_labelled_lines, read_lines

_NEVER = 10**6  # steps: no run gets there


def pretrain(gate: StepCounter, workload: Workload) -> None:
    """Stage one. Evaluation and checkpoints are left out: they come every few minutes, not every few steps."""
    datasets.config.HF_DATASETS_CACHE = workload.folder / "cache"
    size = workload.size
    arguments = PretrainArguments(
        corpus=[str(workload.corpus)],
        output=str(workload.folder / "greffe"),
        tokenizer=str(workload.tokenizer),
        preset=size.preset,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feed_forward,
        block_size=workload.block_size,
        per_device_train_batch_size=workload.batch_size // int(os.environ.get("WORLD_SIZE", "1")),
        validation_fraction=0.0,
        max_steps=_NEVER,
        save_steps=_NEVER,
    )
    tokenizer = load_tokenizer(workload.tokenizer)
    with PartialState(cpu=True).main_process_first():
        documents = tokenize_corpus(read_corpus(arguments.corpus), tokenizer, 0.0, arguments.seed)
    set_seed(arguments.seed)
    model = stage_one.prepare_model(arguments, tokenizer)
    trainer = stage_one.make_trainer(arguments, model, tokenizer, documents, Path(arguments.output))
    count_steps(trainer, gate, workload.size, head=True)
    trainer.train()


def finetune(gate: StepCounter, workload: Workload) -> None:
    """Stage two, without its evaluations."""
    folder = save_language_model(workload)
    arguments = FinetuneArguments(
        model=str(folder),
        train=str(workload.labelled),
        output=str(workload.folder / "greffe"),
        max_length=workload.block_size,
        per_device_train_batch_size=workload.batch_size,
        num_train_epochs=_NEVER,
        save_steps=-1,
    )
    tokenizer, part = load_tokenizer(folder), read_labelled(workload.labelled)
    labels = collect_labels(part)
    rows = stage_two.make_rows(part, labels, tokenizer, arguments, "train")
    set_seed(arguments.seed)
    model = stage_two.prepare_model(arguments, labels)
    parts = {"train": rows, "validation": rows[:1]}
    trainer = stage_two.make_trainer(arguments, model, tokenizer, parts, labels, Path(arguments.output))
    trainer.args.eval_strategy = IntervalStrategy.NO
    count_steps(trainer, gate, workload.size, head=False)
    trainer.train()


def classify(gate: StepCounter, workload: Workload, bf16: Literal["auto", "off"] = "off", batch_size: int = 32) -> None:
    """A step is all texts."""
    classifier = load_classifier(save_classifier(workload), bf16)
    texts, _ = read_labelled_lines(workload.labelled)
    while True:
        classifier.predict(texts, batch_size=batch_size)
        gate.step(texts=len(texts))


def classify_one(gate: StepCounter, workload: Workload) -> None:
    """A step is one text, alone."""
    classifier = load_classifier(save_classifier(workload))
    texts, _ = read_labelled_lines(workload.labelled)
    while True:
        for text in texts[: workload.steps]:  # the same in each slice
            classifier.predict([text])
            gate.step(texts=1)


def generate(gate: StepCounter, workload: Workload, prompts: int, new_tokens: int) -> None:
    """transformers' `generate` on a batch of prompts of one length; a step is one call."""
    folder = save_language_model(workload)
    model, tokenizer = load_language_model(folder).model, load_tokenizer(folder)
    ids = torch.tensor(read_prompts(workload, tokenizer, prompts))
    while True:
        model.generate(ids, max_new_tokens=new_tokens, do_sample=False, use_cache=True, eos_token_id=None)
        gate.step(tokens=prompts * new_tokens)


def write(gate: StepCounter, workload: Workload, new_tokens: int) -> None:
    """What `greffe generate` does: one text, piece by piece."""
    model = load_language_model(save_language_model(workload))
    prompt = model.tokenizer.decode(read_prompts(workload, model.tokenizer, 1)[0][1:])
    while True:
        for _ in model.generate(prompt, max_new_tokens=new_tokens, temperature=0.0):
            pass
        gate.step(tokens=new_tokens)


def learn_tokenizer(gate: StepCounter, corpus: Path, vocabulary: int) -> None:
    megabytes = corpus.stat().st_size / 1e6
    while True:
        train_tokenizer(read_corpus(corpus), vocabulary)
        gate.step(megabytes=megabytes)


def prepare_corpus(gate: StepCounter, workload: Workload) -> None:
    """From the text file to rows that can be trained on, with nothing in the cache."""
    tokenizer = load_tokenizer(workload.tokenizer)
    megabytes = workload.corpus.stat().st_size / 1e6
    while True:
        with tempfile.TemporaryDirectory(dir=workload.folder) as cache:
            datasets.config.HF_DATASETS_CACHE = Path(cache)
            documents = tokenize_corpus(read_corpus(workload.corpus), tokenizer, 0.0, 0)
            rows = PackedRows(documents.train, workload.block_size)
            gate.step(megabytes=megabytes, tokens=len(rows) * workload.block_size)


def start_embeddings(gate: StepCounter, workload: Workload) -> None:
    """What pre-training does before its first step: embeddings from what stands together in the documents."""
    datasets.config.HF_DATASETS_CACHE = workload.folder / "cache"
    tokenizer = load_tokenizer(workload.tokenizer)
    documents = tokenize_corpus(read_corpus(workload.corpus), tokenizer, 0.0, 0)
    embedding: Any = GreffeForCausalLM(make_config(workload, tokenizer)).get_input_embeddings()
    while True:
        spectral.start_embeddings(embedding, stage_one.read_ids(documents), tokenizer.all_special_ids, 0)
        gate.step(starts=1)


def make_config(workload: Workload, tokenizer: Any, **options: Any) -> GreffeConfig:
    size = workload.size
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "pad", "eos")}
    return GreffeConfig.from_preset(
        size.preset,
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feed_forward,
        **special,
        **options,
    )


def save_language_model(workload: Workload) -> Path:
    """A language model that has learned nothing, but does not end a text before its time."""
    tokenizer = load_tokenizer(workload.tokenizer)
    set_seed(0)
    model = GreffeForCausalLM(make_config(workload, tokenizer))
    with torch.no_grad():
        model.lm_head.bias[tokenizer.eos_token_id] = -1e4
    return _save(model, tokenizer, workload)


def save_classifier(workload: Workload) -> Path:
    tokenizer = load_tokenizer(workload.tokenizer)
    set_seed(0)
    names = dict(enumerate(LABELS))
    config = make_config(workload, tokenizer, id2label=names, label2id={name: index for index, name in names.items()})
    config.problem_type, config.classifier_pooling = "single_label_classification", "mean"
    return _save(GreffeForSequenceClassification(config), tokenizer, workload)


def _save(model: Any, tokenizer: Any, workload: Workload) -> Path:
    folder = Path(tempfile.mkdtemp(dir=workload.folder))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def read_prompts(workload: Workload, tokenizer: Any, number: int, length: int = 32) -> list[list[int]]:
    """The first tokens of the first texts that have as many."""
    ids = (tokenizer(text)["input_ids"] for text in read_lines(workload.corpus))
    prompts = [row[:length] for row, _ in zip((row for row in ids if len(row) >= length), range(number), strict=False)]
    if len(prompts) < number:
        raise ValueError(f"expected {number} texts of {length} tokens in {workload.corpus}, found {len(prompts)}")
    return prompts


__all__ = [
    "classify",
    "classify_one",
    "finetune",
    "generate",
    "learn_tokenizer",
    "make_config",
    "prepare_corpus",
    "pretrain",
    "read_prompts",
    "save_classifier",
    "save_language_model",
    "start_embeddings",
    "write",
]
