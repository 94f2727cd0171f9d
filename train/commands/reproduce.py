"""The reference experiment on its data files: its claims beside what is measured (greffe[compare,sentencepiece])."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        required=True,
        help="a folder with train, valid and test.review.spm and .label, dict.txt and a SentencePiece *.model",
    )
    parser.add_argument("--corpus", required=True, nargs="+", help="plain text for the language model, as in pretrain")
    parser.add_argument("--output", required=True, help="the folder of everything; run again, it goes on")
    parser.add_argument("--max_steps", type=int, default=3000, help="steps of 16 texts in stage 1 (default: 3000)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the labelled texts (default: 10)")
    parser.add_argument("--seeds", type=int, default=3, help="repetitions of stage 2 (default: 3)")


def run(arguments: argparse.Namespace) -> None:
    from greffe.train.reproduce import ReproduceArguments, reproduce
    from transformers.utils import logging

    logging.disable_progress_bar()
    print(reproduce(ReproduceArguments(**vars(arguments))))
    print(f"report: {arguments.output}/comparison/report.html")
