"""Write a model for programs without torch, after checking that it computes the same.

The folder gets the graph (model.onnx), the tokenizer, and onnx.json with the labels; examples/onnx_predict.py runs it
with onnxruntime and tokenizers alone. The table shows size, speed and decisions before and after, on the texts of
--texts, with their labels where they have some.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder to write; new or empty")
    parser.add_argument("--format", choices=["onnx"], default="onnx", help="default: onnx")
    parser.add_argument("--quantize", choices=["int8"], help="matrices of 8 bits: smaller, faster, less exact")
    parser.add_argument("--texts", metavar="FILE", help="texts to check on, labelled or not; default: random ids")
    parser.add_argument("--text_column", default="text", metavar="NAME", help="the column of the text; default: text")
    parser.add_argument("--label_column", default="label", metavar="NAME", help="of the label; default: label")
    parser.add_argument("--label_separator", metavar="TEXT", help="what separates several labels in one field")
    parser.add_argument("--max_texts", type=int, default=1000, metavar="N", help="check on at most; default: 1000")


def run(options: argparse.Namespace) -> None:
    # Whatever can be refused is refused before the slow imports and the work.
    from greffe.tokenization.output_folder import check_output_folder

    check_output_folder(options.output)
    if options.max_texts < 1:
        raise ValueError(f"expected --max_texts of at least 1, found {options.max_texts}")
    from greffe.inference.classifier import load_classifier
    from greffe.inference.language_model import load_language_model
    from greffe.inference.model_folder import find_model
    from greffe.inference.onnx_export import check_packages, export_onnx
    from transformers.utils import logging

    check_packages()
    logging.disable_progress_bar()  # of the library's loading
    _, head = find_model(options.model)
    model: Any
    if head == "GreffeForSequenceClassification":
        model = load_classifier(options.model)
        texts = None if options.texts is None else _read_texts(options, model.labels.task)
    else:
        model = load_language_model(options.model)
        texts = None if options.texts is None else _read_texts(options, None)
    print(export_onnx(model, options.output, texts=texts, quantize=options.quantize))
    print(f"written to {options.output}")


def _read_texts(options: argparse.Namespace, task: Any) -> Any:
    """The texts of the file, with labels if it has some; of a long file, some from everywhere."""
    from greffe.inference.sources import open_source
    from greffe.train.labelled_data import read_labelled

    is_pieces = options.texts.endswith(".review.spm")
    source = open_source([options.texts], options.text_column, "strict", sys.stdin.buffer) if not is_pieces else None
    if source is None or (task is not None and options.label_column in source.columns()):
        data = read_labelled(
            options.texts,
            text_column=options.text_column,
            label_column=options.label_column,
            task=task or "auto",
            label_separator=options.label_separator,
        )
        return data.select(range(0, len(data), -(-len(data) // options.max_texts)))
    texts = [text for window in source.windows() for text in window.texts]
    if not texts:
        raise ValueError(f"expected texts in {options.texts}, found none")
    return texts[:: -(-len(texts) // options.max_texts)]
