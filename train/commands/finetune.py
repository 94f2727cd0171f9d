"""Graft a classifier onto a model and fine-tune it on labelled texts."""

from __future__ import annotations

from collections.abc import Sequence

from greffe.train.arguments import FinetuneArguments, parse_arguments


def main(argv: Sequence[str]) -> None:
    usage = "--model DIR --train FILE --output DIR [--config FILE] [options]"
    arguments = parse_arguments(FinetuneArguments, argv, "greffe finetune", usage)
    from greffe.train.finetune import finetune
    from greffe.train.stage_trainer import is_first_process
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's saving and loading; training has its own
    record = finetune(arguments)
    if not is_first_process():
        return
    for part, metrics in record["metrics"].items():
        figures = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if isinstance(value, float))
        print(f"{part}: {figures}")
    print(f"{record['steps']:,} steps in {record['seconds']:,.0f} s; model in {arguments.output}")
