"""Show which parts of a text carried a classifier's decision.

Blue speaks for the label, orange against it. Colours appear in a terminal, unless NO_COLOR is set; the parts that weigh
most are listed below the text. Without TEXT it is read from standard input.
"""

from __future__ import annotations

import argparse
import os
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text to explain")
    parser.add_argument("--label", metavar="NAME", help="explain this label; default: the most probable one")
    parser.add_argument(
        "--method",
        choices=["leave_one_out", "integrated_gradients"],
        default="leave_one_out",
        help="delete each token and look, or integrate the gradient; default: leave_one_out",
    )
    parser.add_argument(
        "--steps", type=int, default=32, metavar="N", help="of the integration; more are more exact; default: 32"
    )
    parser.add_argument("--output", metavar="FILE", help="write a page too: a new .html file")


def run(options: argparse.Namespace) -> None:
    from pathlib import Path

    path = None if options.output is None else Path(options.output)
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"expected --output to end in .html, found {path}")
    if path is not None and path.exists():
        raise FileExistsError(f"expected a new file, found {path}; choose another --output, or remove it first")
    text = sys.stdin.read().rstrip("\r\n") if options.text is None else options.text
    from greffe.inference.classifier import load_classifier
    from greffe.inference.explanation import explain
    from greffe.inference.explanation_report import explanation_page, format_explanation
    from transformers.utils import logging

    logging.disable_progress_bar()  # of the library's loading
    classifier = load_classifier(options.model)
    explanation = explain(classifier, text, label=options.label, method=options.method, steps=options.steps)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(format_explanation(explanation, colour))
    if path is not None:
        path.write_text(explanation_page(explanation), encoding="utf-8")
        print(f"\nwritten to {path}")
