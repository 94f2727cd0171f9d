"""The options of the stages and of their comparison, each documented once, here; how flags and YAML become them.

Nothing heavy is imported: `greffe pretrain --help` prints this file.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

# How many documents of a streamed corpus validate: they stay in memory.
STREAMED_VALIDATION = 1000


def option(default: Any, text: str) -> Any:
    """A field with its documentation, which `--help` shows."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": text})
    return field(default=default, metadata={"help": text})


def required(text: str) -> Any:
    return field(metadata={"help": text})


@dataclass(kw_only=True)
class OptimiserOptions:
    """How weights are moved. Names are those of transformers.TrainingArguments where it has them, here and below."""

    gradient_accumulation_steps: int = option(1, "Batches whose gradients are summed into one step.")
    lr_scheduler_type: str = option("cosine", "How the learning rate falls after warming up: cosine, linear, constant…")
    max_grad_norm: float = option(1.0, "Gradients longer than this are shortened to it; 0: never.")
    bf16: Literal["auto", "on", "off"] = option("auto", "Matrix products in bf16; auto: where the processor has it.")


@dataclass(kw_only=True)
class StageArguments(OptimiserOptions):
    """What both stages have in common."""

    output: str = required("The folder of the run: checkpoints while it runs, the model at its end.")
    resume: bool = option(False, "Continue from the newest complete checkpoint in --output, or start if there is none.")
    seed: int = option(0, "The seed of every random draw: weights, order of the data, masks, dropout.")
    max_steps: int = option(-1, "Stop after so many optimiser steps; -1: after num_train_epochs.")
    max_minutes: float | None = option(
        None,
        "Stop after so many minutes, those before --resume included, however many num_train_epochs says; the learning "
        "rate is scheduled to end there.",
    )
    save_total_limit: int = option(2, "How many checkpoints are kept.")
    early_stopping_patience: int | None = option(None, "Stop after so many evaluations without an improvement.")
    tensorboard: bool = option(False, "Write TensorBoard logs to OUTPUT/logs (pip install greffe[tensorboard]).")


@dataclass(kw_only=True)
class PretrainArguments(StageArguments):
    """The options of `greffe pretrain`."""

    corpus: list[str] = required(
        "Text files, folders or globs: txt, jsonl, csv, parquet, plain or compressed; folders of "
        "datasets.save_to_disk; OWNER/NAME[:SUBSET][@REVISION] on the Hub. Of a dataset with splits, train is read."
    )
    text_column: str = option("text", "The column of jsonl, csv, parquet and datasets that holds the text.")
    separator: Literal["line", "blank_line"] = option("line", "What separates the documents of a txt file.")
    errors: Literal["strict", "replace"] = option("strict", "What to do with bytes that are not UTF-8.")
    validation_fraction: float = option(0.02, "The share of the documents that is kept for validation.")
    streaming: bool = option(
        False,
        "Read and tokenise the corpus while training, again in each pass, and write no copy of it to disk; needs "
        "max_steps or max_minutes, and reads again up to its place when resumed. Of the documents kept for validation "
        f"the first {STREAMED_VALIDATION:,} are used.",
    )
    shuffle_buffer: int = option(10_000, "Rows that are held in memory when streaming, to draw the next one from.")
    tokenizer: str | None = option(None, "A tokenizer folder; without one, and without --model, one is trained.")
    tokenizer_vocab_size: int = option(8192, "The size of the tokenizer that is trained.")
    tokenizer_lowercase: bool = option(
        False,
        "Train one that lower-cases every text: a small corpus does not show often enough that Excellent and excellent "
        "are one word. The model then learns lower case alone, and bits per byte leave the case out.",
    )
    model: str | None = option(
        None, "A model to continue from, with its tokenizer: a folder, or NAME[@REVISION] in the local hub."
    )
    preset: str = option("small", "A named configuration to start from: small or lab.")
    hidden_size: int | None = option(None, "In place of the preset's.")
    num_hidden_layers: int | None = option(None, "In place of the preset's.")
    num_attention_heads: int | None = option(None, "In place of the preset's.")
    intermediate_size: int | None = option(None, "In place of the preset's.")
    hidden_dropout: float | None = option(None, "In place of the preset's or the model's.")
    attention_dropout: float | None = option(None, "In place of the preset's or the model's.")
    embeddings: Literal["spectral", "random"] = option(
        "spectral", "How those of a new model start: from what stands together in the documents, or drawn at random."
    )
    objective: Literal["causal", "masked", "hybrid"] = option(
        "causal", "Predict the next token; or masked ones, seeing both sides; or both, in one model with one head."
    )
    mask_probability: float = option(0.3, "The share of the tokens that are masked, where the objective masks.")
    masked_share: float = option(0.5, "The share of the rows that are masked under the hybrid objective.")
    block_size: int = option(256, "Tokens in a row; the most, where rows are not packed.")
    packing: bool = option(
        True, "Pack documents into full rows without padding; else a row is one document, or a piece of a long one."
    )
    cross_document_attention: bool = option(
        False, "Let the documents of a row see each other: faster, since no mask is needed, but each sees strangers."
    )
    num_train_epochs: float = option(1.0, "Passes over the corpus, unless max_steps or max_minutes end it.")
    per_device_train_batch_size: int = option(
        8, "Rows in a batch; in short runs more steps teach more than larger batches."
    )
    per_device_eval_batch_size: int = option(16, "Rows in a batch of the evaluation.")
    optimizer: Literal["adamw", "muon"] = option(
        "adamw", "muon: for the matrices of the layers, AdamW for the rest; it needs a processor with bf16, or a GPU."
    )
    learning_rate: float = option(1e-3, "The highest learning rate.")
    warmup_steps: float = option(0.05, "Steps until then; below 1, the share of all steps.")
    weight_decay: float = option(0.1, "Of the matrices; biases and norms have none.")
    eval_steps: int = option(500, "Evaluate, and write a sample of text, every so many steps.")
    save_steps: int = option(500, "Write a checkpoint every so many steps.")
    sample_prompt: str = option("", "What the sample of text at each evaluation starts with.")


@dataclass(kw_only=True)
class ClassifierOptions(OptimiserOptions):
    """What fine-tuning and comparing have in common: the labelled data, and how a classifier learns from it."""

    model: str = required("The model to graft onto, with its tokenizer: a folder, or NAME[@REVISION] in the local hub.")
    train: str = required("Labelled texts: csv, jsonl or parquet, or NAME.review.spm beside NAME.label.")
    validation: str | None = option(None, "Labelled texts to choose the best epoch on; without it, a part of --train.")
    text_column: str = option("text", "The column that holds the text.")
    label_column: str = option("label", "The column that holds the label.")
    label_separator: str | None = option(None, "What separates several labels in one field.")
    task: Literal["auto", "single_label", "multi_label", "regression"] = option(
        "auto", "What a label is; auto: lists are several labels, fractions a regression, anything else one label."
    )
    dictionary: str | None = option(None, "The vocabulary of .spm files, if it is not the dict.txt beside them.")
    errors: Literal["strict", "replace"] = option("strict", "What to do with bytes that are not UTF-8.")
    validation_fraction: float = option(0.1, "The share of --train that is kept for validation, if there is no file.")
    max_length: int = option(256, "Longer texts are cut to so many tokens.")
    truncation: Literal["head", "tail", "both"] = option(
        "both", "What is kept of them: of a review, verdicts stand at its ends."
    )
    attention: Literal["model", "causal", "bidirectional"] = option("model", "What a token sees; model: as saved.")
    pooling: Literal["last", "mean", "layers"] = option(
        "mean", "What the classifier reads: the last token, the mean of all, or the means of all layers, side by side."
    )
    head: Literal["linear", "random"] = option(
        "random",
        "How it starts on a trained trunk: as the linear classifier that is best before the trunk learns anything, or "
        "drawn at random.",
    )
    ngram_order: int = option(
        0,
        "Add a linear classifier of the words and of runs of up to so many words, which is fitted to the labels by "
        "itself and weighed against the trunk on validation; 0: none.",
    )
    hidden_dropout: float | None = option(None, "In place of the model's.")
    attention_dropout: float | None = option(None, "In place of the model's.")
    classifier_dropout: float | None = option(None, "In place of the model's.")
    class_weights: bool = option(False, "Weigh each class by the inverse of its frequency.")
    lm_loss_weight: float = option(0.0, "Add so much of the language-modelling loss on the texts.")
    layerwise_lr_decay: float = option(1.0, "The learning rate of a layer, as a share of that of the layer above it.")
    gradual_unfreezing: bool = option(False, "Train the head alone in the first epoch, then a layer more in each.")
    label_smoothing_factor: float = option(0.0, "How much of each label is spread over the others.")
    num_train_epochs: float = option(5.0, "Passes over the training texts.")
    per_device_train_batch_size: int = option(16, "Texts in a batch.")
    per_device_eval_batch_size: int = option(64, "Texts in a batch of the evaluation.")
    warmup_steps: float = option(0.1, "Steps until the highest learning rate; below 1, the share of all steps.")
    weight_decay: float = option(0.01, "Of the matrices; biases and norms have none.")


@dataclass(kw_only=True)
class FinetuneArguments(ClassifierOptions, StageArguments):
    """The options of `greffe finetune`."""

    test: str | None = option(None, "Labelled texts that are looked at once, by the finished model.")
    deduplicate: bool = option(False, "Remove from training what stands in validation or test, exactly or nearly.")
    from_scratch: bool = option(False, "Draw all weights at random: the same architecture without pre-training.")
    freeze: Literal["none", "trunk"] = option("none", "What is not trained.")
    learning_rate: float = option(5e-4, "The highest learning rate.")
    save_steps: int = option(0, "Write a checkpoint every so many steps; 0: after each epoch; -1: never.")


@dataclass(kw_only=True)
class CompareArguments(ClassifierOptions):
    """The options of `greffe compare`."""

    output: str = required("The folder of the comparison: finished runs, results and report. Run again, it goes on.")
    test: str = required("Labelled texts that each run is measured on, once, when all its choices are made.")
    labels: list[str] = option(["all"], "How many labelled texts to train on, one or more: numbers, or all.")
    seeds: int = option(5, "How many times: each seed has its own initial weights, order and, below all, labels.")
    methods: list[str] = option(
        ["majority", "tfidf", "scratch", "frozen", "pretrained"], "What to compare, among these."
    )
    learning_rate: list[float] = option([5e-4], "The highest learning rate; of several, validation chooses.")
    frozen_learning_rate: list[float] = option([1e-3, 5e-3, 2e-2], "The same where the trunk is frozen.")
    keep_overlap: bool = option(False, "Keep the texts of train and validation that stand in test; else they go.")


Arguments = TypeVar("Arguments", bound=OptimiserOptions)


def parse_arguments(stage: type[Arguments], argv: Sequence[str], prog: str, usage: str) -> Arguments:
    """Flags over a YAML file (`--config FILE`) over the defaults; unknown names in either are errors."""
    parser = _hf_argument_parser()(
        stage,
        prog=prog,
        usage=f"{prog} {usage}",
        description=stage.__doc__,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="a YAML file with options by these names; flags override it")
    config, _ = _config_parser().parse_known_args(argv)
    file_arguments = [] if config.config is None else _yaml_arguments(stage, Path(config.config))
    # What comes later on a command line wins, and what comes from the file is checked like any flag.
    namespace = parser.parse_args([*file_arguments, *argv])
    return stage(**{f.name: getattr(namespace, f.name) for f in fields(stage)})


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Says the default where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.required or action.default is None else super()._get_help_string(action)


def _config_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    return parser


def _yaml_arguments(stage: type[OptimiserOptions], path: Path) -> list[str]:
    """The options of a YAML file, as flags."""
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise FileNotFoundError(f"expected a YAML file at --config {path}, found nothing") from None
    except yaml.YAMLError as error:
        raise ValueError(f"expected YAML in {path}, found: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected options as `name: value` in {path}, found {type(values).__name__}")
    types = {f.name: f.type for f in fields(stage)}
    unknown = sorted(str(name) for name in values if name not in types)
    if unknown:
        raise ValueError(f"expected options among {list(types)} in {path}, found {unknown}")
    arguments = []
    for name, value in values.items():
        if isinstance(value, bool) and types[name] not in ("bool", bool):
            value = "on" if value else "off"  # YAML reads these words as booleans
        if value is not None:
            items = [str(item) for item in value] if isinstance(value, list) else [str(value)]
            # In one word where it can be: a value that starts with a dash would pass for a flag.
            arguments += [f"--{name}={items[0]}"] if len(items) == 1 else [f"--{name}", *items]
    return arguments


def _hf_argument_parser() -> Any:
    """transformers.HfArgumentParser, from its file: importing transformers takes longer than a `--help` should."""
    name = "transformers.hf_argparser"
    if name not in sys.modules:
        spec = importlib.util.find_spec("transformers")
        path = Path(str(spec and spec.origin)).with_name("hf_argparser.py")
        file_spec = importlib.util.spec_from_file_location("_hf_argparser", path)
        if file_spec is None or file_spec.loader is None:
            raise ImportError(f"expected transformers with {path.name}, found none; pip install greffe again")
        module = importlib.util.module_from_spec(file_spec)
        sys.modules["_hf_argparser"] = module  # dataclasses look their module up
        file_spec.loader.exec_module(module)
        return module.HfArgumentParser
    return sys.modules[name].HfArgumentParser


__all__ = [
    "ClassifierOptions",
    "CompareArguments",
    "FinetuneArguments",
    "OptimiserOptions",
    "PretrainArguments",
    "StageArguments",
    "parse_arguments",
]
