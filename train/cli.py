"""`greffe`: one command line, thin over the functions of the package.

A subcommand is a module of `greffe.train.commands` with `add_arguments(parser)` and `run(arguments)`, or with a
`main(argv)` that does both. It is imported only when it is called, and imports torch and its friends only inside these
functions, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

COMMANDS = {
    "pretrain": "a language model from plain text",
    "finetune": "a classifier grafted onto it, from labelled texts",
    "demo": "the whole job on real film reviews, in minutes",
    "compare": "how much pre-training helps: runs over seeds and label budgets, and a report",
    "reproduce": "the reference experiment, its claims beside what is measured",
    "predict": "labels for texts, or for a file of any size",
    "evaluate": "how good a model is on texts it has not seen, and how sure that is",
    "generate": "continue a text",
    "explain": "which parts of a text carried a decision",
    "export": "a model for programs without torch, checked against the original",
    "serve": "an API and a page for a model",
    "tokenizer": "train a tokenizer on any text, import the experiment's, see how one cuts a text",
    "hub": "keep models by name in a directory: push, tag, pull, verify, serve",
    "params": "where the parameters of a model are, and how many",
    "convert": "a checkpoint of the reference experiment into a Greffe folder",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; an expected failure is one line on standard error and a non-zero exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("greffe: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        message = _expected_message(error)
        if os.environ.get("GREFFE_TRACEBACK") or message is None:
            raise
        print(f"greffe: error: {message}", file=sys.stderr)
        return 1
    return 0


def _run(arguments: list[str]) -> None:
    width = max(map(len, COMMANDS)) + 2
    parser = argparse.ArgumentParser(
        prog="greffe",
        description="Pre-train a small Transformer on plain text, graft a head onto it, fine-tune it as a classifier.",
        epilog="subcommands:\n"
        + "\n".join(f"  {name:<{width}}{summary}" for name, summary in COMMANDS.items())
        + "\n\n`greffe SUBCOMMAND --help` lists its options. GREFFE_TRACEBACK=1 shows where an error arose.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"greffe {version('greffe')}")
    parser.add_argument("subcommand", choices=COMMANDS, metavar="SUBCOMMAND", help="what to do; see below")
    name = parser.parse_args(arguments[:1]).subcommand

    command = importlib.import_module(f"greffe.train.commands.{name}")
    if hasattr(command, "main"):
        return command.main(arguments[1:])
    subparser = argparse.ArgumentParser(
        prog=f"greffe {name}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(subparser)
    return command.run(subparser.parse_args(arguments[1:]))


def _expected_message(error: Exception) -> str | None:
    """What to say of an error about what the user gave; None for a mistake in Greffe, which deserves its traceback."""
    if isinstance(error, (ValueError, OSError, ImportError, FloatingPointError)):
        return str(error)
    from huggingface_hub.errors import StrictDataclassError

    if isinstance(error, StrictDataclassError):  # a configuration that cannot be built; the cause says why
        return str(error.__cause__ or error)
    return None


if __name__ == "__main__":
    sys.exit(main())
