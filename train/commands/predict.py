"""Label texts with a trained classifier.

INPUT is texts, or one file: .csv, .jsonl, .parquet, or .txt with a text a line (all but .parquet also compressed).
Without INPUT, texts are read from standard input, one a line. Files are read as a stream and keep their columns and
order; `prediction` and `probability` are added. A run with --output that was interrupted continues where it was when
it is started again.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument("input", nargs="*", metavar="INPUT", help="texts, or a file; none, or -: standard input")
    parser.add_argument(
        "--output", metavar="FILE", help="a new .csv, .jsonl or .parquet file; without it, standard output"
    )
    parser.add_argument("--text_column", default="text", metavar="NAME", help="the column of the text; default: text")
    parser.add_argument("--top_k", type=int, metavar="K", help="give the K most probable labels; default: 1")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="abstain (empty labels, of all ranks) where the most probable label is less probable; with several "
        "labels a text, give those above it (default: 0.5)",
    )
    parser.add_argument("--prefix", default="", metavar="NAME", help="before the names of the columns that are added")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N", help="texts in a batch; default: 32")
    parser.add_argument(
        "--bf16",
        choices=["auto", "on", "off"],
        default="off",
        help="matrix products in bf16: faster where the processor has it (auto), with rounded probabilities; "
        "default: off",
    )
    parser.add_argument(
        "--errors",
        choices=["strict", "replace"],
        default="strict",
        help="bytes that are not UTF-8: stop and say where (default), or read them as \ufffd",
    )


def run(options: argparse.Namespace) -> None:
    # Whatever can be refused is refused before the slow imports and the work.
    from pathlib import Path

    from greffe.inference.parts import output_format
    from greffe.inference.sources import open_source

    if options.output is not None:
        output_format(Path(options.output))
        if Path(options.output).exists():
            raise FileExistsError(
                f"expected a new file, found {options.output}; choose another --output, or remove it first"
            )
    source = open_source(options.input, options.text_column, options.errors, sys.stdin.buffer)

    from greffe.inference.classifier import load_classifier
    from greffe.inference.prediction_job import PredictionColumns, predict_to_file, predict_to_stream
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's loading; predictions have their own
    classifier = load_classifier(options.model, options.bf16)
    columns = PredictionColumns(classifier, options.top_k, options.threshold, options.prefix)
    if options.output is not None:
        rows = predict_to_file(source, columns, options.output, options.batch_size, _announce)
        print(f"{rows:,} texts predicted; written to {options.output}")
    elif source.format in (None, ".txt"):
        _print_lines(source, columns, options.batch_size)
    else:
        format = ".csv" if source.format == ".csv" else ".jsonl"
        predict_to_stream(source, columns, sys.stdout.buffer, format, options.batch_size)


def _announce(line: str) -> None:
    print(line, file=sys.stderr)


def _print_lines(source: Any, columns: Any, batch_size: int) -> None:
    """A line for each text, as they come: what the model says, then the text."""
    from greffe.inference.prediction_job import predict_windows
    from greffe.inference.terminal import harmless

    show = harmless if sys.stdout.isatty() else str
    for window, predictions in predict_windows(source, columns, batch_size, size=batch_size):
        for text, prediction in zip(window.texts, predictions or [], strict=True):
            print(show(f"{columns.describe(prediction)}\t{text}"))
        sys.stdout.flush()
