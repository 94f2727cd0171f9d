"""Continue a text with a trained language model, printed as it is written.

Without PROMPT the text is read from standard input, without the end of its last line. The same seed gives the same
text; with several samples, each has a seed of its own, one more than that of the sample before it.
"""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help='what to continue, of any length; "": from nothing')
    parser.add_argument("--max_new_tokens", type=int, default=100, metavar="N", help="write at most; default: 100")
    parser.add_argument(
        "--temperature", type=float, default=0.8, metavar="T", help="0: the most probable token; default: 0.8"
    )
    parser.add_argument(
        "--top_k", type=int, default=50, metavar="K", help="draw among the K most probable; 0: all; default: 50"
    )
    parser.add_argument(
        "--top_p", type=float, default=1.0, metavar="P", help="and among the fewest that have P together; default: 1"
    )
    parser.add_argument(
        "--repetition_penalty", type=float, default=1.0, metavar="R", help="above 1: avoid what was written; default: 1"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the draw; default: another each time")
    parser.add_argument("--num_samples", type=int, default=1, metavar="N", help="texts to write; default: 1")


def run(options: argparse.Namespace) -> None:
    if options.num_samples < 1:
        raise ValueError(f"expected --num_samples of at least 1, found {options.num_samples}")
    prompt = sys.stdin.read().removesuffix("\n") if options.prompt is None else options.prompt
    from greffe.inference.language_model import load_language_model
    from greffe.inference.terminal import harmless
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's loading
    model = load_language_model(options.model)
    show = harmless if sys.stdout.isatty() else str
    for number in range(options.num_samples):
        pieces = model.generate(
            prompt,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
            seed=None if options.seed is None else options.seed + number,
        )
        if options.num_samples > 1:
            print(f"{'' if number == 0 else chr(10)}--- {number + 1}")
        print(show(prompt), end="", flush=True)
        for piece in pieces:
            print(show(piece), end="", flush=True)
        print()
