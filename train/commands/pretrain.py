"""Train a language model on plain text."""

from __future__ import annotations

from collections.abc import Sequence

from greffe.train.arguments import PretrainArguments, parse_arguments


def main(argv: Sequence[str]) -> None:
    usage = "--corpus FILES… --output DIR [--config FILE] [options]"
    arguments = parse_arguments(PretrainArguments, argv, "greffe pretrain", usage)
    from greffe.train.pretrain import pretrain
    from greffe.train.stage_trainer import is_first_process
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's saving and loading; training has its own
    record = pretrain(arguments)
    if not is_first_process():
        return
    figures = ", ".join(f"{name} {value:.4g}" for name, value in record["metrics"].items())
    print(f"{record['steps']:,} steps in {record['seconds']:,.0f} s; validation {figures}; model in {arguments.output}")
