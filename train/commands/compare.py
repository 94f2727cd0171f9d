"""How much pre-training helps: from scratch, frozen and pre-trained, over seeds and label budgets, beside baselines."""

from __future__ import annotations

from collections.abc import Sequence

from greffe.train.arguments import CompareArguments, parse_arguments


def main(argv: Sequence[str]) -> None:
    usage = "--model DIR --train FILE --test FILE --output DIR [--config FILE] [options]"
    arguments = parse_arguments(CompareArguments, argv, "greffe compare", usage)
    from greffe.train.comparison.compare import compare
    from greffe.train.comparison.report import format_verdict, summarise
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's saving and loading; the comparison has its own
    results = compare(arguments)
    print(summarise(results))
    print(format_verdict(results))
    print(f"report: {arguments.output}/report.html")
