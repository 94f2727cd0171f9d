"""The whole job on real film reviews: tokenizer, pre-training, comparison, report (pip install 'greffe[demo]')."""

from __future__ import annotations

import argparse
import shlex


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=7.0, help="how long it may take on two cores (default: 7)")
    parser.add_argument(
        "--output", help="where everything goes (default: greffe-demo; with --minutes 60, greffe-demo-60, and so on)"
    )


def run(arguments: argparse.Namespace) -> None:
    from greffe.train.comparison.report import format_verdict, summarise
    from greffe.train.demo import (
        COMPARISON,
        LANGUAGE_MODEL,
        default_output,
        is_long,
        make_plan,
        read_reviews,
        run_demo,
    )
    from transformers.utils import logging

    logging.disable_progress_bar()
    output = arguments.output or default_output(arguments.minutes)
    results = run_demo(output, make_plan(arguments.minutes), read_reviews())
    print(summarise(results))
    print()
    print(format_verdict(results))
    print(f"The page: {output}/{COMPARISON}/report.html")
    better = "" if is_long(arguments.minutes) else "; greffe demo --minutes 60 trains a larger model"
    print(f"(What this demo learned is in {shlex.quote(f'{output}/{LANGUAGE_MODEL}')}{better}.)")
    print("Next, on files of your own:")
    print("  greffe pretrain --corpus TEXTS.txt --output my-language-model --max_minutes 20")
    print("  greffe finetune --model my-language-model --train LABELLED.csv --output my-classifier --deduplicate")
    print("  greffe compare --model my-language-model --train LABELLED.csv --test TEST.csv --output my-comparison")
