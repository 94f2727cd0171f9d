"""Train a tokenizer on any text, import the reference experiment's, or see how one cuts a text.

`greffe tokenizer train --help`, `import --help` and `show --help` list the options of each.
"""

from __future__ import annotations

import argparse

_TRAIN = """Learn a tokenizer from text files, byte-level and lossless on any Unicode text.

The folder is an ordinary Hugging Face tokenizer: AutoTokenizer.from_pretrained(DIR) reads it without Greffe."""

_IMPORT = """Import the SentencePiece model and the dictionary of the reference experiment, with exactly their ids.

It needs the package sentencepiece: pip install greffe[sentencepiece]."""

_SHOW = """Print the pieces and ids of a text, and how many characters a piece covers on average.

Pieces of text are quoted, control tokens are not; bytes that are only part of a character are shown as b'\\xc3'."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    plain = argparse.RawDescriptionHelpFormatter
    train = actions.add_parser("train", help="learn one from text files", description=_TRAIN, formatter_class=plain)
    _add_train_arguments(train)
    experiment = actions.add_parser(
        "import", help="the reference experiment's SentencePiece model", description=_IMPORT, formatter_class=plain
    )
    experiment.add_argument("--sentencepiece", required=True, metavar="MODEL", help="the .model file, of type BPE")
    experiment.add_argument("--dict", required=True, metavar="DICT", help="its dict.txt: a piece and a count a line")
    _add_output_arguments(experiment)
    show = actions.add_parser("show", help="the pieces and ids of a text", description=_SHOW, formatter_class=plain)
    show.add_argument("tokenizer", metavar="DIR", help="a tokenizer's or model's folder")
    show.add_argument("text", metavar="TEXT", help="the text to cut")


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus",
        required=True,
        nargs="+",
        metavar="FILES",
        help=".txt, .jsonl or .csv, plain or compressed (.gz, .xz, .zst, .bz2), .parquet, folders, globs; folders of "
        "datasets.save_to_disk; OWNER/NAME[:SUBSET][@REVISION] on the Hub. Of a dataset with splits, train is read",
    )
    _add_output_arguments(parser)
    parser.add_argument(
        "--algorithm", choices=["bpe", "unigram"], default="bpe", help="how pieces are chosen; default: bpe"
    )
    parser.add_argument("--vocab_size", type=int, default=8192, metavar="N", help="tokens in all; default: 8192")
    parser.add_argument(
        "--lowercase", action="store_true", help="lower-case every text: the case is lost, and nothing else"
    )
    parser.add_argument(
        "--text_column", default="text", metavar="NAME", help="of .jsonl, .csv, .parquet and datasets; default: text"
    )
    parser.add_argument(
        "--separator",
        choices=["line", "blank_line"],
        default="line",
        help="what ends a document in .txt files: each line (default), or a blank line",
    )
    parser.add_argument(
        "--errors",
        choices=["strict", "replace"],
        default="strict",
        help="bytes that are not UTF-8: stop and say where (default), or read them as \ufffd",
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder to write; new or empty")
    parser.add_argument(
        "--model_max_length", type=int, default=512, metavar="N", help="what truncation cuts at; default: 512"
    )


def run(options: argparse.Namespace) -> None:
    {"train": _train, "import": _import, "show": _show}[options.action](options)


def _train(options: argparse.Namespace) -> None:
    # Whatever can be refused is refused before the slow imports and the work.
    from greffe.tokenization.corpus import read_corpus
    from greffe.tokenization.output_folder import check_output_folder

    check_output_folder(options.output)
    corpus = read_corpus(
        options.corpus, text_column=options.text_column, separator=options.separator, errors=options.errors
    )
    from greffe.tokenization.fast_tokenizer import save_tokenizer
    from greffe.tokenization.training import train_tokenizer

    tokenizer = train_tokenizer(
        corpus,
        options.vocab_size,
        options.algorithm,
        lowercase=options.lowercase,
        model_max_length=options.model_max_length,
        progress=True,
    )
    save_tokenizer(tokenizer, options.output)
    learned = f"{options.algorithm} tokenizer of {len(tokenizer):,} tokens"
    if len(tokenizer) < options.vocab_size:
        learned += f" (the corpus holds no more; {options.vocab_size:,} were asked for)"
    print(f"{learned} written to {options.output}")


def _import(options: argparse.Namespace) -> None:
    from greffe.tokenization.output_folder import check_output_folder

    check_output_folder(options.output)
    from greffe.tokenization.fast_tokenizer import save_tokenizer
    from greffe.tokenization.sentencepiece_import import import_sentencepiece

    tokenizer = import_sentencepiece(options.sentencepiece, options.dict, model_max_length=options.model_max_length)
    save_tokenizer(tokenizer, options.output)
    print(f"SentencePiece tokenizer of {len(tokenizer):,} tokens written to {options.output}")


def _show(options: argparse.Namespace) -> None:
    from greffe.tokenization.display import format_pieces
    from greffe.tokenization.fast_tokenizer import load_tokenizer

    print(format_pieces(load_tokenizer(options.tokenizer), options.text))
