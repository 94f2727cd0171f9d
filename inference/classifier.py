"""A trained classifier: texts in, labels and probabilities out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from greffe.tokenization.fast_tokenizer import check_unicode
from greffe.train.labels import LabelSet
from greffe.train.machine import BF16_LENGTHS, native_bf16
from greffe.train.truncation import Truncation, truncate_all
from torch import Tensor

from .batches import batches_by_length
from .model_folder import load_head, read_record

# Of the fine-tuning stage, for models that came otherwise and do not say.
_MAX_LENGTH = 256
_TRUNCATION: Truncation = "head"
# A label of several holds where its probability is above this.
_HALF = 0.5


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of one text."""

    # One label; with several a text, those that hold; empty where the model abstains, and for a regression.
    labels: tuple[str, ...]
    # Of every label, in the order of the model's; empty for a regression. They sum to 1 where a text has one label.
    probabilities: dict[str, float]
    # The number that a regression gives.
    value: float | None = None

    @property
    def label(self) -> str:
        """The first label, or "" if there is none."""
        return self.labels[0] if self.labels else ""

    def top(self, number: int) -> list[tuple[str, float]]:
        """The most probable labels with their probabilities; equal ones in the order of the model's."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])[:number]


@dataclass
class Classifier:
    """A model, its tokenizer and its labels. Made by `load_classifier`.

    ```python
    >>> classifier = load_classifier("lab/french-reviews@v1")
    >>> classifier.predict(["Un très beau livre."])[0].label
    'positif'
    ```
    """

    folder: Path
    model: Any
    tokenizer: Any
    labels: LabelSet
    # Longer texts are cut as they were in fine-tuning.
    max_length: int = _MAX_LENGTH
    truncation: Truncation = _TRUNCATION
    # Matrix products in bf16, as in training where the processor has it: faster, and rounded.
    bf16: bool = False

    def predict(self, texts: Sequence[str], batch_size: int = 32, threshold: float | None = None) -> list[Prediction]:
        """A prediction for each text, in their order.

        Below `threshold` the most probable label is not given: the model abstains. Where a text has several labels,
        those above it hold (one half unless given).
        """
        self.check_threshold(threshold)
        return self.decide(self.logits(self.encode(texts), batch_size), threshold)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, cut to the length of the fine-tuning."""
        for number, text in enumerate(texts):
            check_unicode(text, f"text {number}")
        if not texts:
            return []
        return self.truncate(self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"])

    def truncate(self, ids: Sequence[Sequence[int]]) -> list[list[int]]:
        return truncate_all(ids, self.max_length, self.truncation, self.tokenizer.bos_token_id)[0]

    @torch.inference_mode()
    def logits(
        self, ids: Sequence[Sequence[int]], batch_size: int = 32, progress: Callable[[int], None] | None = None
    ) -> Tensor:
        """The logits of encoded texts, (N, C) on the processor. Texts of similar length share a batch.

        `progress` is called after each batch with the number of texts that are done.
        """
        result = torch.empty(len(ids), len(self.labels.names))
        done = 0
        pad, device = self.tokenizer.pad_token_id, self.model.device
        for rows, batch in batches_by_length(ids, batch_size, pad, device, BF16_LENGTHS if self.bf16 else 1):
            with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
                result[rows] = self.model(**batch).logits.float().cpu()
            done += len(rows)
            if progress is not None:
                progress(done)
        if not result.isfinite().all():  # argmax would take NaN for the largest
            raise ValueError(f"expected finite logits, found NaN or infinity; the weights in {self.folder} are damaged")
        return result

    def probabilities(self, logits: Tensor) -> Tensor:
        """(N, C) logits into probabilities, in double precision."""
        if self.labels.task == "regression":
            raise ValueError(f"expected a classifier, found a regression in {self.folder}, which has no probabilities")
        logits = logits.double()
        return logits.softmax(-1) if self.labels.task == "single_label" else logits.sigmoid()

    def decide(self, logits: Tensor, threshold: float | None = None) -> list[Prediction]:
        """What the logits say, in words."""
        names = self.labels.names
        if self.labels.task == "regression":
            return [Prediction((), {}, value) for value in logits[:, 0].tolist()]
        rows = self.probabilities(logits).tolist()
        if self.labels.task == "multi_label":
            least = _HALF if threshold is None else threshold
            return [
                Prediction(
                    tuple(name for name, share in zip(names, row, strict=True) if share > least),
                    dict(zip(names, row, strict=True)),
                )
                for row in rows
            ]
        winners = logits.argmax(-1).tolist()  # of the logits: as the metrics of fine-tuning decide
        return [
            Prediction(
                () if threshold is not None and row[winner] < threshold else (names[winner],),
                dict(zip(names, row, strict=True)),
            )
            for row, winner in zip(rows, winners, strict=True)
        ]

    def check_threshold(self, threshold: float | None) -> None:
        """Refuse a threshold that cannot be meant."""
        if threshold is None:
            return
        if self.labels.task == "regression":
            raise ValueError("expected no threshold for a regression, whose values are not probabilities, found one")
        if not 0 <= threshold <= 1:
            raise ValueError(f"expected a threshold between 0 and 1, found {threshold}")


def load_classifier(model: str | os.PathLike[str], bf16: Literal["auto", "on", "off"] = "off") -> Classifier:
    """The classifier of a folder, or of `organisation/name[@revision]` in the local hub.

    `bf16` rounds the factors of matrix products, which is faster where the processor has it; `auto` does it there.
    """
    folder, loaded, tokenizer = load_head(model, "GreffeForSequenceClassification", "a classifier")
    config = loaded.config
    # As transformers reads a configuration that does not say: one output is a number.
    problem_type = config.problem_type or ("regression" if config.num_labels == 1 else None)
    labels = LabelSet.from_config(problem_type, config.id2label)
    arguments = read_record(folder).get("arguments", {})
    return Classifier(
        folder,
        loaded,
        tokenizer,
        labels,
        max_length=arguments.get("max_length", _MAX_LENGTH),
        truncation=arguments.get("truncation", _TRUNCATION),
        bf16=native_bf16() if bf16 == "auto" else bf16 == "on",
    )


__all__ = ["Classifier", "Prediction", "load_classifier"]
