"""Measure a model on texts it has not seen.

A classifier, on a labelled file: the metrics of fine-tuning with confidence intervals, whether its probabilities can
be believed (expected calibration error, and a plot with --output), and the texts it got most confidently wrong. A
language model, on any text: perplexity a token and bits a byte, as the validation of pre-training computes them.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help="a labelled file; for a language model files, folders or globs of text"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="a new folder for the figures as JSON and Markdown, and the reliability plot"
    )
    parser.add_argument("--text_column", default="text", metavar="NAME", help="the column of the text; default: text")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N", help="texts in a batch; default: 32")
    parser.add_argument(
        "--errors",
        choices=["strict", "replace"],
        default="strict",
        help="bytes that are not UTF-8: stop and say where (default), or read them as \ufffd",
    )
    classifier = parser.add_argument_group("for a classifier")
    classifier.add_argument("--label_column", default="label", metavar="NAME", help="the column of the label")
    classifier.add_argument("--label_separator", metavar="TEXT", help="what separates several labels in one field")
    classifier.add_argument("--dictionary", metavar="FILE", help="of .spm files, if it is not the dict.txt beside them")
    classifier.add_argument("--samples", type=int, default=1000, metavar="N", help="resamples; default: 1000")
    classifier.add_argument("--confidence", type=float, default=0.95, metavar="P", help="default: 0.95")
    classifier.add_argument("--seed", type=int, default=0, metavar="N", help="of the resampling; default: 0")
    classifier.add_argument("--worst", type=int, default=10, metavar="N", help="mistakes to show; default: 10")
    language = parser.add_argument_group("for a language model")
    language.add_argument(
        "--separator",
        choices=["line", "blank_line"],
        default="line",
        help="what ends a document in .txt files: each line (default), or a blank line",
    )


def run(options: argparse.Namespace) -> None:
    # Whatever can be refused is refused before the slow imports and the work.
    from greffe.tokenization.output_folder import check_output_folder

    if options.output is not None:
        check_output_folder(options.output)
    from greffe.inference.model_folder import find_model
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's loading
    _, head = find_model(options.model)
    if head == "GreffeForSequenceClassification":
        _evaluate_classifier(options)
    else:
        _evaluate_language_model(options)


def _evaluate_classifier(options: argparse.Namespace) -> None:
    from greffe.inference.classifier import load_classifier
    from greffe.inference.evaluation import evaluate_classifier
    from greffe.inference.evaluation_report import format_evaluation, write_evaluation
    from greffe.train.labelled_data import read_labelled

    if len(options.file) > 1:
        raise ValueError(f"expected one labelled file for a classifier, found {len(options.file)}")
    if options.output is not None:
        _check_matplotlib()
    classifier = load_classifier(options.model)
    data = read_labelled(
        options.file[0],
        text_column=options.text_column,
        label_column=options.label_column,
        task=classifier.labels.task,
        label_separator=options.label_separator,
        errors=options.errors,
        dictionary=options.dictionary,
    )
    with _bar(len(data), "texts") as bar:
        evaluation = evaluate_classifier(
            classifier,
            data,
            batch_size=options.batch_size,
            samples=options.samples,
            confidence=options.confidence,
            seed=options.seed,
            worst=options.worst,
            progress=lambda done: bar.update(done - bar.n),
        )
    print(format_evaluation(evaluation))
    if options.output is not None:
        write_evaluation(evaluation, options.output)
        print(f"\nwritten to {options.output}")


def _evaluate_language_model(options: argparse.Namespace) -> None:
    import json
    from pathlib import Path

    from greffe.inference.evaluation import evaluate_language_model
    from greffe.inference.language_model import load_language_model
    from greffe.tokenization.corpus import read_corpus
    from greffe.tokenization.output_folder import write_folder

    model = load_language_model(options.model)
    corpus = read_corpus(
        options.file, text_column=options.text_column, separator=options.separator, errors=options.errors
    )
    with _bar(corpus.total_bytes, "B") as bar:
        record = evaluate_language_model(
            model, corpus, batch_size=options.batch_size, progress=lambda done: bar.update(done - bar.n)
        )
    figures = ", ".join(f"{name} {value:.4f}" for name, value in record["metrics"].items())
    print(f"{record['documents']:,} documents, {record['tokens']:,} tokens, {record['bytes']:,} bytes: {figures}")
    if options.output is not None:
        content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        write_folder(options.output, lambda place: Path(place, "evaluation.json").write_text(content, encoding="utf-8"))
        print(f"written to {options.output}")


def _check_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise ImportError("the reliability plot needs matplotlib, which is not installed: pip install greffe[compare]")


def _bar(total: int | None, unit: str) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, unit_scale=True, disable=None, leave=False, file=sys.stderr)
