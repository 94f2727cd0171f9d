"""An exported model beside the original, on the same texts: logits, decisions, size and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from greffe.train.labelled_data import LabelledTexts
from greffe.train.labels import encode_labels
from greffe.train.metrics import make_compute_metrics
from torch import Tensor

from .batches import batches_by_length
from .classifier import Classifier
from .language_model import LanguageModel

_BATCH = 32
# Texts that are run one by one to see how long one takes.
_ALONE = 50
# Ids of a text that a language model is given.
_LENGTH = 256


@dataclass(frozen=True)
class Variant:
    """One form of the model, on the texts of the check."""

    name: str
    size: int  # bytes of the weights' file
    texts_per_second: float  # in batches
    milliseconds: float  # of a text alone
    # The largest difference to a logit of the torch model, and the share of decisions that are the same.
    difference: float
    agreement: float | None
    # The first metric of the task, where the texts have labels.
    metric: float | None


@dataclass(frozen=True)
class ExportReport:
    """What was measured. `texts` is 0 where none were given, and random ids were used."""

    variants: list[Variant]
    texts: int
    metric_name: str | None

    def __str__(self) -> str:
        header = ["", "size", "texts/s", "ms a text", "largest difference", "same decision"]
        rows = [header if self.metric_name is None else [*header, self.metric_name]]
        for variant in self.variants:
            figures = [
                variant.name,
                f"{variant.size / 1e6:.1f} MB",
                f"{variant.texts_per_second:,.0f}",
                f"{variant.milliseconds:.2f}",
                f"{variant.difference:.1e}",
                "-" if variant.agreement is None else f"{variant.agreement:.1%}",
            ]
            rows.append(figures if variant.metric is None else [*figures, f"{variant.metric:.4f}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        checked = f"checked on {self.texts:,} texts" if self.texts else "checked on random ids; --texts gives real ones"
        return "\n".join([*lines, checked])


class OnnxModel:
    """An ONNX file with the face of a torch model, so that what runs one runs the other."""

    device = torch.device("cpu")

    def __init__(self, path: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()  # as many as torch has beside it
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        feed = {"input_ids": input_ids.numpy(), "attention_mask": attention_mask.numpy()}
        return SimpleNamespace(logits=torch.from_numpy(self.session.run(None, feed)[0]))


class Check:
    """The texts that every variant is run on. The torch model is the first, and the measure of the others."""

    def __init__(self, model: Classifier | LanguageModel, texts: LabelledTexts | Sequence[str] | None):
        self.model = model
        self.texts = 0 if texts is None else len(texts)
        self.ids = self._random_ids() if texts is None else self._encode(texts)
        self.labels: Any = model.labels if isinstance(model, Classifier) else None
        self.references: Any = None
        if isinstance(texts, LabelledTexts) and self.labels is not None:
            self.references = np.asarray(encode_labels(texts, self.labels))
        self.variants: list[Variant] = []
        self.expected: Tensor | None = None
        size = sum(path.stat().st_size for path in model.folder.glob("*.safetensors"))
        self.measure("torch fp32", model.model, size)

    def _random_ids(self) -> list[list[int]]:
        draw = np.random.default_rng(0)
        return [draw.integers(0, len(self.model.tokenizer), length).tolist() for length in draw.integers(1, 65, 100)]

    def _encode(self, texts: LabelledTexts | Sequence[str]) -> list[list[int]]:
        words = texts.texts if isinstance(texts, LabelledTexts) else list(texts)
        ids = texts.input_ids if isinstance(texts, LabelledTexts) else None
        if isinstance(self.model, Classifier):
            return self.model.encode(words) if ids is None else self.model.truncate(ids)
        return [row[:_LENGTH] for row in ids or self.model.tokenizer(words, verbose=False)["input_ids"]]

    def measure(self, name: str, model: Any, size: int) -> Variant:
        """Run a variant on all texts in batches, and on some of them alone."""
        self._run(model, self.ids[:_BATCH], _BATCH)  # the first run of anything is slow
        start = time.perf_counter()
        logits = self._run(model, self.ids, _BATCH)
        seconds = time.perf_counter() - start
        alone = self.ids[:: max(1, len(self.ids) // _ALONE)][:_ALONE]
        start = time.perf_counter()
        self._run(model, alone, 1)
        milliseconds = (time.perf_counter() - start) / len(alone) * 1000
        expected = self.expected = logits if self.expected is None else self.expected
        variant = Variant(
            name,
            size,
            len(self.ids) / seconds,
            milliseconds,
            float((logits - expected).abs().max()),
            self._agree(logits, expected),
            None if self.references is None else self._score(logits)[1],
        )
        self.variants.append(variant)
        return variant

    @torch.inference_mode()
    def _run(self, model: Any, ids: list[list[int]], batch_size: int) -> Tensor:
        """The logits of each text; of a language model, those of the token that would follow it."""
        result: Any = None
        device = getattr(model, "device", torch.device("cpu"))
        for rows, batch in batches_by_length(ids, batch_size, self.model.tokenizer.pad_token_id, device):
            logits = model(**batch).logits.float().cpu()
            if logits.ndim == 3:
                logits = logits[torch.arange(len(rows)), batch["attention_mask"].sum(1).cpu() - 1]
            if result is None:
                result = torch.empty(len(ids), logits.shape[1])
            result[rows] = logits
        return result

    def _agree(self, logits: Tensor, expected: Tensor) -> float | None:
        task = "single_label" if self.labels is None else self.labels.task  # the next token is one of many
        if task == "regression":
            return None
        if task == "multi_label":
            return float(((logits > 0) == (expected > 0)).all(1).double().mean())
        return float((logits.argmax(1) == expected.argmax(1)).double().mean())

    def _score(self, logits: Tensor) -> tuple[str, float]:
        labels = self.labels
        compute = make_compute_metrics(labels.task, labels.id2label, detailed=False)
        metrics = compute(SimpleNamespace(predictions=logits.numpy(), label_ids=self.references))
        return next(iter(metrics.items()))

    def report(self) -> ExportReport:
        name = None if self.references is None or self.expected is None else self._score(self.expected)[0]
        return ExportReport(self.variants, self.texts, name)


__all__ = ["Check", "ExportReport", "OnnxModel", "Variant"]
