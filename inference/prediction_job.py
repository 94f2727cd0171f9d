"""Predictions for a stream of texts: window by window, batched by length, in the order of the source."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from greffe.tokenization.text_stream import Errors
from tqdm import tqdm

from .classifier import Classifier, Prediction
from .parts import encode_header, encode_rows, open_parts, output_format
from .sources import WINDOW, Source, Window

# Digits of a probability that are written: more would only make files larger.
_DIGITS = 6


@dataclass(frozen=True)
class PredictionColumns:
    """What a prediction adds to a row.

    One label: `prediction` and its `probability`, and with `top_k` above 1 `prediction_2`, `probability_2` and so on.
    Where the most probable label is below the threshold, no label is given, of no rank; the probabilities tell why.
    Several labels: `prediction` is the list of those that hold, most probable first, at most `top_k`, and
    `probability_NAME` stands for each label. Regression: `prediction` is the number.
    """

    classifier: Classifier
    top_k: int | None = None
    threshold: float | None = None
    # Before each name, where the source has columns of these names already.
    prefix: str = ""

    def __post_init__(self) -> None:
        labels = self.classifier.labels
        self.classifier.check_threshold(self.threshold)
        if self.top_k is None:
            return
        if labels.task == "regression":
            raise ValueError("expected no --top_k for a regression, which has no labels, found one")
        if not 1 <= self.top_k <= len(labels.names):
            raise ValueError(
                f"expected --top_k between 1 and {len(labels.names)}, the number of labels, found {self.top_k}"
            )

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}{name}" for name in self._names()]

    def _names(self) -> list[str]:
        labels = self.classifier.labels
        if labels.task == "regression":
            return ["prediction"]
        if labels.task == "multi_label":
            return ["prediction", *(f"probability_{name}" for name in labels.names)]
        ranks = ["", *(f"_{rank}" for rank in range(2, (self.top_k or 1) + 1))]
        return [f"{name}{rank}" for rank in ranks for name in ("prediction", "probability")]

    def schema(self, source: Any) -> Any:
        """The types of a source's columns and of these."""
        import pyarrow

        task = self.classifier.labels.task
        for name in self.names:
            kind = pyarrow.float64()
            if name.removeprefix(self.prefix).startswith("prediction") and task != "regression":
                kind = pyarrow.string() if task == "single_label" else pyarrow.list_(pyarrow.string())
            source = source.append(pyarrow.field(name, kind))
        return source

    def values(self, prediction: Prediction) -> list[Any]:
        """In the order of the names."""
        task = self.classifier.labels.task
        if task == "regression":
            return [prediction.value]
        if task == "multi_label":
            ranked = prediction.top(len(prediction.probabilities))
            held = [name for name, _ in ranked if name in prediction.labels]
            return [held[: self.top_k], *(round(share, _DIGITS) for share in prediction.probabilities.values())]
        return [value for name, share in self._given(prediction) for value in (name, round(share, _DIGITS))]

    def _given(self, prediction: Prediction) -> list[tuple[str, float]]:
        """The most probable labels of one, with their probabilities; without their names where the model abstains."""
        ranked = prediction.top(self.top_k or 1)
        return ranked if prediction.labels else [("", share) for _, share in ranked]

    def describe(self, prediction: Prediction) -> str:
        """The same for people to read, in one line."""
        task = self.classifier.labels.task
        if task == "regression":
            return f"{prediction.value:.4g}"
        if task == "multi_label":
            held = self.values(prediction)[0]
            return ", ".join(f"{name} {prediction.probabilities[name]:.3f}" for name in held) or "-"
        return ", ".join(f"{name or '-'} {share:.3f}" for name, share in self._given(prediction))

    def check(self, columns: Iterable[str]) -> None:
        """Refuse to write over what the source has."""
        taken = sorted(set(self.names) & set(columns))
        if taken:
            raise ValueError(
                f"expected no column {taken[0]!r} beside the texts, which is the name of a result, found one; pass "
                f"--prefix, such as --prefix {self.prefix}model_"
            )

    def add(self, window: Window, predictions: list[Prediction]) -> Any:
        """The rows of the window with these columns at their end."""
        values = [self.values(prediction) for prediction in predictions]
        if isinstance(window.rows, list):
            for row in window.rows:
                self.check(row)
            return [
                row | dict(zip(self.names, added, strict=True)) for row, added in zip(window.rows, values, strict=True)
            ]
        import pyarrow

        self.check(window.rows.column_names)
        table = window.rows
        fields = self.schema(pyarrow.schema([]))
        for index, field in enumerate(fields):
            table = table.append_column(field, pyarrow.array([added[index] for added in values], field.type))
        return table


def predict_windows(
    source: Source, columns: PredictionColumns, batch_size: int, skip: int = 0, size: int = WINDOW
) -> Iterator[tuple[Window, list[Prediction] | None]]:
    """Each window and its predictions, None for the first `skip`; with a progress bar where someone can see it."""
    classifier = columns.classifier
    hidden = True if source.is_typed else None  # None: where nobody can see it
    with tqdm(total=source.total_bytes or None, unit="B", unit_scale=True, disable=hidden, leave=False) as bar:
        done = 0
        for number, window in enumerate(source.windows(size)):
            predictions = None
            if number >= skip:
                show = _follow(bar, bar.n, window, done)
                logits = classifier.logits(classifier.encode(window.texts), batch_size, show)
                predictions = classifier.decide(logits, columns.threshold)
            yield window, predictions
            done += len(window.texts)
            bar.update(window.position - bar.n)


def _follow(bar: Any, start: float, window: Window, before: int) -> Callable[[int], None]:
    """Move the bar through a window as its texts are done, as if all were of one length."""

    def show(done: int) -> None:
        share = done / len(window.texts)
        bar.set_postfix_str(f"{before + done:,} texts", refresh=False)
        bar.update(start + share * (window.position - start) - bar.n)

    return show


def predict_to_file(
    source: Source,
    columns: PredictionColumns,
    output: str | os.PathLike[str],
    batch_size: int = 32,
    announce: Callable[[str], None] = lambda line: None,
) -> int:
    """Write the source's rows with their predictions; continues what an interrupted run began. Returns the rows."""
    path = Path(output)
    format = output_format(path)
    names, schema = _columns_of_output(source, columns, format)
    settings = {**describe_run(source, columns), "batch_size": batch_size, "window": WINDOW}
    with open_parts(path, settings, names, schema, announce) as parts:
        if parts.count:
            announce(f"continuing an interrupted run: {parts.count:,} parts of {WINDOW:,} texts are done")
        skip = sys.maxsize if parts.is_complete else parts.count
        rows = 0
        for window, predictions in predict_windows(source, columns, batch_size, skip, WINDOW):
            rows += len(window.texts)
            if predictions is not None:
                parts.append(columns.add(window, predictions))
    return rows


def predict_to_stream(
    source: Source, columns: PredictionColumns, file: BinaryIO, format: str, batch_size: int = 32
) -> None:
    """The same as lines of .csv or .jsonl, written as they are done."""
    names, _ = _columns_of_output(source, columns, format)
    file.write(encode_header(format, names))
    for window, predictions in predict_windows(source, columns, batch_size, size=WINDOW):
        file.write(encode_rows(columns.add(window, predictions or []), format, names))
        file.flush()


def _columns_of_output(source: Source, columns: PredictionColumns, format: str) -> tuple[list[str], Any]:
    """Names and types, where the format needs them before the first row; both are checked before any work."""
    if format == ".parquet":
        schema = source.schema()
        columns.check(schema.names)
        return [], columns.schema(schema)
    if format == ".jsonl" and source.format == ".jsonl":
        return [], None
    names = source.columns()
    columns.check(names)
    return [*names, *columns.names], None


def describe_run(source: Source, columns: PredictionColumns) -> dict[str, Any]:
    """All that the predictions depend on; the input by its content, None where it cannot be read again."""
    folder = columns.classifier.folder
    settings = [folder / name for name in ("config.json", "tokenizer.json", "tokenizer_config.json")]
    files = [*sorted(folder.glob("*.safetensors")), *(path for path in settings if path.is_file())]
    return {
        "input": None if source.path is None else _hash([source.path]),
        "format": source.format,
        "text_column": source.text_column,
        "errors": source.errors,
        "model": _hash(files),
        "max_length": columns.classifier.max_length,
        "truncation": columns.classifier.truncation,
        "bf16": columns.classifier.bf16,
        "top_k": columns.top_k,
        "threshold": columns.threshold,
        "prefix": columns.prefix,
    }


def _hash(files: list[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def predict_file(
    classifier: Classifier,
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    text_column: str = "text",
    top_k: int | None = None,
    threshold: float | None = None,
    prefix: str = "",
    batch_size: int = 32,
    errors: Errors = "strict",
) -> int:
    """Predict every row of a .csv, .jsonl, .parquet or .txt file into another, in constant memory; returns the rows.

    A run that was interrupted continues where it was when it is started again with the same arguments.
    """
    source = Source(Path(path), text_column, errors)
    columns = PredictionColumns(classifier, top_k, threshold, prefix)
    return predict_to_file(source, columns, output, batch_size, lambda line: print(line, file=sys.stderr))


__all__ = [
    "PredictionColumns",
    "describe_run",
    "predict_file",
    "predict_to_file",
    "predict_to_stream",
    "predict_windows",
]
