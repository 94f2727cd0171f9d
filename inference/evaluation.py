"""How good a model is on texts it has not seen, and how sure one can be of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from greffe.tokenization import Corpus, encode_documents
from greffe.train.labelled_data import LabelledTexts, Task
from greffe.train.labels import encode_labels
from greffe.train.metrics import make_compute_metrics
from greffe.train.objectives import language_metrics, sum_nats
from greffe.train.packing import cut_documents

from .bootstrap import bootstrap_intervals, weighted_metrics
from .calibration import Calibration, calibrate
from .classifier import Classifier
from .language_model import LanguageModel
from .model_folder import read_record

# Documents of a corpus that are in memory at once.
_DOCUMENTS = 1000
# Of the pre-training stage, for models that do not say.
_BLOCK_SIZE = 256


class Mistake(NamedTuple):
    """A text that the model got wrong."""

    place: str  # such as `reviews.csv, line 12`
    text: str
    expected: str
    predicted: str
    # How far from right: the probability of what was wrong; for a regression, the distance.
    error: float


@dataclass(frozen=True)
class Evaluation:
    """What was measured on one labelled file."""

    model: str
    data: str
    task: Task
    rows: int
    # Everything that the fine-tuning stage measures, and the interval of each single number.
    metrics: dict[str, Any]
    intervals: dict[str, tuple[float, float]]
    confidence: float
    # None for a regression.
    calibration: Calibration | None
    # The most confidently wrong texts, the worst first.
    mistakes: list[Mistake]

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        if self.calibration is not None:
            content["calibration"]["expected_error"] = self.calibration.expected_error
        content["mistakes"] = [mistake._asdict() for mistake in self.mistakes]
        return content


def evaluate_classifier(
    classifier: Classifier,
    data: LabelledTexts,
    *,
    batch_size: int = 32,
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    worst: int = 10,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Measure a classifier on labelled texts (`greffe.train.labelled_data.read_labelled` reads them)."""
    labels = classifier.labels
    references = np.asarray(encode_labels(data, labels))
    ids = classifier.encode(data.texts) if data.input_ids is None else classifier.truncate(data.input_ids)
    logits = classifier.logits(ids, batch_size, progress)
    compute = make_compute_metrics(labels.task, labels.id2label)
    metrics = compute(_LogitsAndLabels(logits.numpy(), references))
    decisions = _decide(labels.task, logits)
    intervals = bootstrap_intervals(
        weighted_metrics(labels.task, decisions, references),
        len(data),
        samples=samples,
        confidence=confidence,
        seed=seed,
    )
    shares = None if labels.task == "regression" else classifier.probabilities(logits).numpy()
    return Evaluation(
        str(classifier.folder),
        str(data.path),
        labels.task,
        len(data),
        metrics,
        intervals,
        confidence,
        _calibrate(labels.task, shares, references),
        _find_mistakes(classifier, data, decisions, references, shares)[:worst],
    )


class _LogitsAndLabels(NamedTuple):
    """What the metrics take from Trainer."""

    predictions: np.ndarray
    label_ids: np.ndarray


def _decide(task: Task, logits: torch.Tensor) -> np.ndarray:
    if task == "single_label":
        return logits.argmax(-1).numpy()
    return (logits > 0).numpy().astype(int) if task == "multi_label" else logits[:, 0].double().numpy()


def _calibrate(task: Task, shares: np.ndarray | None, references: np.ndarray) -> Calibration | None:
    """One label: how often the winner is right. Several: how often a label holds, over all texts and labels."""
    if shares is None:
        return None
    if task == "single_label":
        return calibrate(shares.max(1), shares.argmax(1) == references)
    return calibrate(shares.ravel(), references.ravel())


def _find_mistakes(
    classifier: Classifier,
    data: LabelledTexts,
    decisions: np.ndarray,
    references: np.ndarray,
    shares: np.ndarray | None,
) -> list[Mistake]:
    names = np.array(classifier.labels.names, dtype=object)
    rows = np.arange(len(data))
    if shares is None:
        errors = np.abs(decisions - references)
        words = [(f"{true:g}", f"{said:.4g}") for true, said in zip(references, decisions, strict=True)]
    elif classifier.labels.task == "single_label":
        errors = np.where(decisions != references, shares[rows, decisions], 0)
        words = list(zip(names[references], names[decisions], strict=True))
    else:
        # Of a text's labels, the one that is furthest from right.
        errors = (np.abs(shares - references) * (decisions != references)).max(1)
        words = [
            (", ".join(names[true > 0]) or "-", ", ".join(names[said > 0]) or "-")
            for true, said in zip(references, decisions, strict=True)
        ]
    return [
        Mistake(data.place(row), data.texts[row], words[row][0], words[row][1], float(errors[row]))
        for row in np.argsort(-errors, kind="stable").tolist()
        if errors[row] > 0
    ]


def evaluate_language_model(
    model: LanguageModel, corpus: Corpus, *, batch_size: int = 16, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Loss and perplexity a token and bits a byte, each document read in rows of the length of the pre-training.

    Documents are read as the stage's validation reads them, so that the figures can be compared with its own.
    """
    block_size = read_record(model.folder).get("arguments", {}).get("block_size", _BLOCK_SIZE)
    pad = model.model.config.pad_token_id
    nats, tokens, documents, text_bytes = 0.0, 0, 0, 0
    texts = iter(corpus)
    while batch := list(islice(texts, _DOCUMENTS)):
        rows = cut_documents(encode_documents(model.tokenizer, batch), block_size)
        added, predicted = sum_nats(model.model, rows, batch_size, pad)
        nats, tokens, documents = nats + added, tokens + predicted, documents + len(batch)
        text_bytes += sum(len(text.encode()) for text in batch)
        if progress is not None:
            progress(corpus.bytes_read)
    return {
        "model": str(model.folder),
        "data": [str(source) for source in corpus.sources],
        "documents": documents,
        "tokens": tokens,
        "bytes": text_bytes,
        "block_size": block_size,
        "metrics": language_metrics(nats, tokens, text_bytes),
    }


__all__ = ["Evaluation", "Mistake", "evaluate_classifier", "evaluate_language_model"]
