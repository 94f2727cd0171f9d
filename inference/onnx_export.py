"""A model as an ONNX file, for programs without torch: written only if it computes what the original computes."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from greffe.tokenization.output_folder import check_output_folder, write_folder
from greffe.train.labelled_data import LabelledTexts
from greffe.train.truncation import truncate_ids
from torch import Tensor, nn

from .classifier import Classifier
from .language_model import LanguageModel
from .onnx_check import Check, ExportReport, OnnxModel

Quantization = Literal["int8"]
MODEL, SETTINGS = "model.onnx", "onnx.json"
# The largest difference of a logit that is taken for rounding.
TOLERANCE = 1e-3


class LogitsOnly(nn.Module):
    """What is exported: ids and mask in, logits out."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def export_onnx(
    model: Classifier | LanguageModel,
    output: str | os.PathLike[str],
    *,
    texts: LabelledTexts | Sequence[str] | None = None,
    quantize: Quantization | None = None,
) -> ExportReport:
    """Write `model.onnx`, the tokenizer and `onnx.json` to a new or empty folder, and report what was measured.

    On the texts, the file must give the logits of the torch model up to rounding, or nothing is written. Without texts
    the check is made on random ids. With `quantize` the file holds matrices of 8 bits, and the report tells their cost.
    A language model gives the logits of every position, without a cache.
    """
    check_packages()
    check_output_folder(output)
    if quantize not in (None, "int8"):
        raise ValueError(f"expected quantize to be 'int8' or nothing, found {quantize!r}")
    check = Check(model, texts)

    def write(folder: Path) -> None:
        path = folder / MODEL
        write_graph(model.model, path)
        exact = check.measure("onnx fp32", OnnxModel(path), path.stat().st_size)
        if not exact.difference <= TOLERANCE:
            raise ValueError(
                f"expected the logits of {model.folder} within {TOLERANCE:g}, found a difference of "
                f"{exact.difference:.2g} in the ONNX file; nothing was written"
            )
        if quantize == "int8":
            quantize_int8(path)
            check.measure("onnx int8", OnnxModel(path), path.stat().st_size)
        model.tokenizer.save_pretrained(folder)
        settings = json.dumps(describe_model(model), indent=1, ensure_ascii=False)
        (folder / SETTINGS).write_text(settings + "\n", encoding="utf-8")

    write_folder(output, write)
    return check.report()


def check_packages() -> None:
    """Say what is missing before any work."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"exporting needs {error.name}, which is not installed: pip install greffe[onnx]") from error


def write_graph(model: Any, path: Path) -> None:
    """The graph of the model, for any number of texts of any length, as one file."""
    ids = torch.ones(2, 8, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    sizes = {0: "batch", 1: "length"}
    with _quiet(), torch.no_grad():
        program: Any = torch.onnx.export(
            LogitsOnly(model).eval(),
            (ids, mask),
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
            dynamo=True,
            verbose=False,
        )
    path.write_bytes(_strip(program.model_proto).SerializeToString())


def _strip(graph: Any) -> Any:
    """Without what the exporter notes for its authors: the lines of code behind each node, with their paths, and sizes
    of what flows between the nodes, some of which are wrong and stop the quantisation."""
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for values in (graph.graph.input, graph.graph.output, graph.graph.initializer):
        for value in values:
            del value.metadata_props[:]
    del graph.graph.metadata_props[:]
    del graph.metadata_props[:]
    del graph.graph.value_info[:]
    return graph


def quantize_int8(path: Path) -> None:
    """Replace the matrices of the file by 8-bit ones; what flows between them is scaled as it comes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = path.with_name(f"int8-{path.name}")
    with _quiet():
        quantize_dynamic(path, small, weight_type=QuantType.QInt8)
    small.replace(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporters say about their own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def describe_model(model: Classifier | LanguageModel) -> dict[str, Any]:
    """What a program needs beside the graph and tokenizer.json.

    A text of more ids than `keep_first + keep_last` keeps so many of them at its ends.
    """
    described: dict[str, Any] = {"pad_token_id": model.tokenizer.pad_token_id}
    if isinstance(model, Classifier):
        length = model.max_length
        kept = truncate_ids(range(3 * length), length, model.truncation, 0)  # positions, of which 0 is the beginning
        last = sum(position >= 2 * length for position in kept)
        described |= {"task": model.labels.task, "labels": list(model.labels.names)}
        described |= {"keep_first": length - last, "keep_last": last}
    return described


__all__ = ["MODEL", "SETTINGS", "check_packages", "describe_model", "export_onnx", "quantize_int8", "write_graph"]
