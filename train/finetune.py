"""Stage two: a classifier grafted onto a language model. `greffe finetune`, or `finetune(FinetuneArguments(…))`.

Runs on several processes with `torchrun --nproc_per_node 2 -m greffe.train.finetune …`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from greffe.hub import resolve_model
from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification
from greffe.modeling.loss import classification_loss
from greffe.modeling.parameters import load_model, read_config
from greffe.tokenization import check_compatible, load_tokenizer
from greffe.tokenization.spelling import spell_tokens
from torch.nn import functional as F
from transformers import (
    DataCollatorWithPadding,
    EvalPrediction,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from .arguments import FinetuneArguments
from .data_report import DataReport, describe_data
from .finetune_trainer import FinetuneTrainer
from .frozen_trunk import POOLED, HeadAlone, read_texts, says_the_same
from .head_start import start_head
from .labelled_data import LabelledTexts, read_labelled
from .labels import LabelSet, collect_labels, encode_labels
from .machine import BF16_LENGTHS
from .metrics import make_compute_metrics
from .ngram_fit import graft_ngrams
from .overlap import remove_overlap
from .run_folder import describe_base, describe_machine, keep_inputs, write_model
from .splitting import split_validation
from .stage_trainer import (
    add_callbacks,
    announce,
    check_stage_arguments,
    common_training_arguments,
    find_finished,
    hold_run,
    is_first_process,
    start_processes,
    train,
)
from .truncation import truncate_all

# What the best epoch is chosen by, and whether more of it is better.
BEST = {"single_label": ("accuracy", True), "multi_label": ("micro_f1", True), "regression": ("mse", False)}


@dataclass(frozen=True)
class LabelledParts:
    """The texts of each part, their labels, and what was found in them."""

    parts: dict[str, LabelledTexts]  # train, validation and, where given, test
    labels: LabelSet
    report: DataReport

    def fingerprints(self) -> dict[str, str]:
        return {name: part.fingerprint() for name, part in self.parts.items()}


def finetune(arguments: FinetuneArguments) -> dict[str, Any]:
    """Fine-tune a classifier and leave its best epoch in `arguments.output`; returns the record of the run."""
    arguments = replace(arguments, model=str(resolve_model(arguments.model)))
    finished = find_finished(arguments)
    if finished is not None:
        return finished
    check_arguments(arguments)
    process = start_processes()
    with hold_run(arguments, process) as folder:
        data = read_parts(arguments)
        announce(str(data.report))
        check_task(arguments, data.labels)
        if process.is_main_process:
            keep_inputs(folder, data.fingerprints(), process.num_processes)
        tokenizer = load_tokenizer(arguments.model)
        rows = {name: make_rows(part, data.labels, tokenizer, arguments, name) for name, part in data.parts.items()}
        trainer = fit(arguments, data.labels, tokenizer, rows, folder)
        return finish(trainer, arguments, data, rows, folder)


def fit(
    arguments: FinetuneArguments,
    labels: LabelSet,
    tokenizer: Any,
    rows: dict[str, list[dict[str, Any]]],
    folder: Path,
    progress: TrainerCallback | None = None,
    remedy: str | None = None,
) -> FinetuneTrainer:
    """Train a classifier on rows of ids and go back to its best epoch.

    `progress` takes the place of the bar; `remedy` is what to do after a signal, where that is not `--resume`.
    """
    set_seed(arguments.seed)
    model = prepare_model(arguments, labels)
    check_compatible(model, tokenizer)
    if arguments.head == "linear" and not arguments.from_scratch and arguments.freeze == "none":
        show, size = progress is None and is_first_process(), arguments.per_device_eval_batch_size
        loss = start_head(model, rows["train"], rows["validation"], ClassificationCollator(tokenizer), size, show)
        if progress is None:
            announce(f"the head starts with a loss of {loss:.3f} on validation")
    use_cache = model.config.use_cache  # which the library switches off
    trainer = make_trainer(arguments, model, tokenizer, rows, labels, folder, progress is None)
    add_callbacks(trainer, arguments, ("texts", 1), progress)
    train(trainer, arguments.resume, remedy)
    trainer.load_best()
    model.config.use_cache = use_cache
    if arguments.ngram_order:
        logits = torch.as_tensor(predict_logits(trainer, rows["validation"]))
        mixture = graft_ngrams(
            model, arguments.ngram_order, spell_tokens(tokenizer), rows["train"], rows["validation"], logits
        )
        if progress is None:
            announce(
                f"n-grams fitted with strength {mixture.strength:g}; on validation the logits of the trunk count "
                f"{mixture.trunk:.2f} times, theirs {mixture.path:.2f} times"
            )
    return trainer


def check_arguments(arguments: FinetuneArguments) -> None:
    """Refuse, before any work, values that cannot be meant."""
    check_stage_arguments(arguments)
    if not 0 < arguments.layerwise_lr_decay <= 1:
        raise ValueError(f"expected --layerwise_lr_decay in (0, 1], found {arguments.layerwise_lr_decay}")
    if arguments.lm_loss_weight < 0:
        raise ValueError(f"expected --lm_loss_weight of at least 0, found {arguments.lm_loss_weight}")
    if arguments.ngram_order < 0:
        raise ValueError(f"expected --ngram_order of at least 0, found {arguments.ngram_order}")
    if arguments.freeze == "trunk" and arguments.ngram_order:
        raise ValueError("expected one of --freeze trunk and --ngram_order, found both")
    if arguments.freeze == "trunk" and arguments.gradual_unfreezing:
        raise ValueError("expected one of --freeze trunk and --gradual_unfreezing, found both")
    choose_config(arguments)


def check_task(arguments: FinetuneArguments, labels: LabelSet) -> None:
    """Refuse options that mean something for one label a text alone."""
    for name in ("class_weights", "label_smoothing_factor"):
        if getattr(arguments, name) and labels.task != "single_label":
            raise ValueError(f"expected --{name} with single labels only, found {labels.task}; leave it out")


def read_parts(arguments: FinetuneArguments) -> LabelledParts:
    """Read every part, split off validation if it has no file, look at all, and remove the overlap if asked."""
    options = {
        name: getattr(arguments, name)
        for name in ("text_column", "label_column", "task", "label_separator", "errors", "dictionary")
    }
    training = read_labelled(arguments.train, **options)
    options["task"] = training.task
    parts = {}
    if arguments.validation is None:
        training, parts["validation"] = split_validation(training, arguments.validation_fraction, arguments.seed)
    else:
        parts["validation"] = read_labelled(arguments.validation, **options)
    if arguments.test is not None:
        parts["test"] = read_labelled(arguments.test, **options)
    report = describe_data({"train": training, **parts})
    if arguments.deduplicate:
        before = len(training), len(parts["validation"])
        if "test" in parts:
            parts["validation"] = remove_overlap(parts["validation"], [parts["test"]])
        training = remove_overlap(training, list(parts.values()))
        announce(
            f"{before[0] - len(training):,} training texts removed that stand in validation or test, and "
            f"{before[1] - len(parts['validation']):,} validation texts that stand in test"
        )
    return LabelledParts({"train": training, **parts}, collect_labels(training), report)


def make_rows(
    part: LabelledTexts, labels: LabelSet, tokenizer: Any, arguments: FinetuneArguments, name: str
) -> list[dict[str, Any]]:
    """Ids and labels of each text, in the order of the file."""
    ids = part.input_ids or tokenizer(part.texts, truncation=False, verbose=False)["input_ids"]
    ids, touched = truncate_all(ids, arguments.max_length, arguments.truncation, tokenizer.bos_token_id)
    if touched:
        kept = f"{arguments.max_length} tokens ({arguments.truncation})"
        announce(f"{touched:,} of {len(ids):,} {name} texts cut to {kept}")
    largest = max(map(max, ids))
    if largest >= len(tokenizer):
        raise ValueError(
            f"expected ids below {len(tokenizer)}, the vocabulary of {arguments.model}, found {largest} in "
            f"{part.path}; use the model and the dictionary that belong together"
        )
    targets = encode_labels(part, labels)
    return [{"input_ids": row, "labels": target, "length": len(row)} for row, target in zip(ids, targets, strict=True)]


def choose_config(arguments: FinetuneArguments) -> GreffeConfig:
    """The configuration of the model folder, with what the options say."""
    config = read_config(arguments.model)
    config.classifier_pooling = arguments.pooling
    config.ngram_order = 0  # what a classifier had of them is of other labels; new ones are fitted after the training
    if arguments.attention != "model":
        config.is_causal = arguments.attention == "causal"
    for name in ("hidden_dropout", "attention_dropout", "classifier_dropout"):
        if getattr(arguments, name) is not None:
            setattr(config, name, getattr(arguments, name))
    config.validate()
    if arguments.lm_loss_weight and not config.is_causal:
        raise ValueError(
            f"expected causal attention with --lm_loss_weight, found --attention {arguments.attention} of "
            f"{arguments.model}, where the next token is in sight; pass --attention causal, or no weight"
        )
    return config


def prepare_model(arguments: FinetuneArguments, labels: LabelSet) -> GreffeForSequenceClassification:
    """The trunk of the model folder with a new head, or the same architecture drawn at random."""
    config = choose_config(arguments)
    config.id2label, config.label2id = labels.id2label, labels.label2id
    config.problem_type = labels.problem_type  # type: ignore[assignment]
    if arguments.from_scratch:
        model = GreffeForSequenceClassification(config)
    else:
        model = load_model(
            GreffeForSequenceClassification, arguments.model, config=config, ignore_mismatched_sizes=True
        )
    if arguments.lm_loss_weight:
        # For the time of the training the language model's head is a part of the classifier, so that checkpoints
        # hold it; the finished model does not.
        scratch = arguments.from_scratch
        language_model = GreffeForCausalLM(config) if scratch else load_model(GreffeForCausalLM, arguments.model)
        model.lm_head = language_model.lm_head
    if arguments.freeze == "trunk":
        model.base_model.requires_grad_(False)
    return model


def make_trainer(
    arguments: FinetuneArguments,
    model: GreffeForSequenceClassification,
    tokenizer: Any,
    rows: dict[str, Any],
    labels: LabelSet,
    folder: Path,
    show_progress: bool = True,
) -> FinetuneTrainer:
    """The trainer of the whole classifier, or of its head alone where the trunk has nothing new to say."""
    metric, more_is_better = BEST[labels.task]
    common = common_training_arguments(arguments, folder)
    collate: Any = ClassificationCollator(tokenizer, pad_to_multiple_of=BF16_LENGTHS if common["bf16"] else None)
    learner: Any = model
    if says_the_same(model) and not arguments.lm_loss_weight:
        for part in rows.values():
            read_texts(model, part, collate, arguments.per_device_eval_batch_size, show_progress and is_first_process())
        learner, collate = HeadAlone(model), collate_pooled
    options = TrainingArguments(
        **common,
        num_train_epochs=10_000 if arguments.max_minutes is not None else arguments.num_train_epochs,
        label_smoothing_factor=arguments.label_smoothing_factor,
        eval_strategy="epoch",
        save_strategy={0: "epoch", -1: "no"}.get(arguments.save_steps, "steps"),
        save_steps=max(arguments.save_steps, 1),
        logging_strategy="epoch",
        metric_for_best_model=metric,
        greater_is_better=more_is_better,
    )
    return FinetuneTrainer(
        learner,
        options,
        arguments=arguments,
        classifier=model,
        class_weights=balanced_weights(rows["train"], labels) if arguments.class_weights else None,
        data_collator=collate,
        train_dataset=rows["train"],
        eval_dataset=sort_by_length(rows["validation"]),
        processing_class=tokenizer,
        compute_metrics=make_compute_metrics(labels.task, labels.id2label, detailed=False),
    )


class ClassificationCollator(DataCollatorWithPadding):
    """Pads to the longest text of the batch, or a little more. Lengths were for the sampler."""

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return super().__call__([{name: row[name] for name in ("input_ids", "labels")} for row in rows])


def collate_pooled(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return default_data_collator([{name: row[name] for name in (POOLED, "labels")} for row in rows])


def sort_by_length(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """So that texts of similar lengths share a batch where the order does not matter, and little of it is padding."""
    return sorted(rows, key=lambda row: row["length"])


def predict_logits(trainer: FinetuneTrainer, rows: list[dict[str, Any]]) -> np.ndarray:
    """The logits of the rows, in their order, computed in that of their lengths."""
    order = sorted(range(len(rows)), key=lambda row: rows[row]["length"])
    in_order: Any = [rows[row] for row in order]
    logits = np.asarray(trainer.predict(in_order).predictions)
    return logits[np.argsort(order)]


def balanced_weights(rows: list[dict[str, Any]], labels: LabelSet) -> torch.Tensor:
    """The inverse frequency of each class, with a mean of 1 over the training texts."""
    targets = torch.tensor([row["labels"] for row in rows])
    counts = F.one_hot(targets, len(labels.names)).sum(0)
    return len(targets) / (len(counts) * counts)


def finish(
    trainer: FinetuneTrainer, arguments: FinetuneArguments, data: LabelledParts, rows: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Measure the best epoch in detail, the test part for the first time, and write the model and its record."""
    metrics = {name: measure(trainer, part, data.labels) for name, part in rows.items() if name != "train"}
    record = {
        "stage": "finetune",
        "arguments": asdict(arguments),
        "data": {
            **data.report.to_dict(),
            "rows": {name: len(part) for name, part in rows.items()},
            "fingerprints": data.fingerprints(),
        },
        "datasets": [Path(path).name for path in (arguments.train, arguments.validation, arguments.test) if path],
        "labels": list(data.labels.names),
        "base_model": describe_base(Path(arguments.model)),
        "steps": trainer.state.global_step,
        "best_step": trainer.state.best_global_step,
        "epochs": [entry for entry in trainer.state.log_history if f"eval_{BEST[data.labels.task][0]}" in entry],
        "seconds": round(trainer.seconds, 1),
        "metrics": metrics,
        "machine": describe_machine(),
    }
    if trainer.is_world_process_zero():
        model = trainer.classifier
        if hasattr(model, "lm_head"):
            del model.lm_head
        model.requires_grad_(True)
        write_model(folder, model, trainer.processing_class, record)
        trainer.remove_best()
    trainer.accelerator.wait_for_everyone()
    return record


def measure(trainer: FinetuneTrainer, rows: Any, labels: LabelSet) -> dict[str, Any]:
    """The metrics of a part, with a loss that does not depend on batches and processes, as the library's does."""
    logits, targets = predict_logits(trainer, rows), np.asarray([row["labels"] for row in rows])
    metrics = make_compute_metrics(labels.task, labels.id2label)(EvalPrediction(logits, targets))
    loss = classification_loss(torch.as_tensor(logits), torch.as_tensor(targets), labels.problem_type)
    return {**metrics, "loss": loss.item()}


def main(argv: Sequence[str] | None = None) -> int:
    from .cli import main as command_line

    return command_line(["finetune", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    raise SystemExit(main())
