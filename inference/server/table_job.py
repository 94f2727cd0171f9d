"""A file of texts that was uploaded to the page, and its predictions beside every column that it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from greffe.inference import Prediction
from greffe.inference.parts import encode_header, encode_rows
from greffe.inference.prediction_job import PredictionColumns
from greffe.inference.sources import Source
from starlette.concurrency import run_in_threadpool

from .batching import Batcher
from .errors import BusyError

_PREFIX = "greffe_"  # of the results, where the file has columns of their names
_RETRY = 0.2  # seconds until a window of rows that found the queue full is sent again


@dataclass
class Progress:
    """What has been done so far."""

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def read_columns(path: Path) -> list[str]:
    """The columns of a .csv file."""
    if path.suffix.lower() != ".csv":
        raise ValueError(f"expected a .csv file, found {path.name}")
    columns = Source(path).columns()
    if not columns:
        raise ValueError(f"expected a line of column names in {path.name}, found an empty file")
    return columns


async def predict_table(batcher: Batcher, path: Path, text_column: str, output: Path) -> AsyncGenerator[Progress, None]:
    """Write the predictions, a window of rows at a time: requests that come meanwhile have their turn in between."""
    names = await run_in_threadpool(read_columns, path)
    columns = PredictionColumns(batcher.classifier)
    if set(columns.names) & set(names):
        columns = PredictionColumns(batcher.classifier, prefix=_PREFIX)
        columns.check(names)
    written = [*names, *columns.names]
    progress = Progress()
    windows = Source(path, text_column).windows(min(batcher.limits.max_texts, batcher.limits.max_queue))
    with output.open("wb") as file:
        file.write(encode_header(".csv", written))
        while (window := await run_in_threadpool(next, windows, None)) is not None:
            if progress.rows + len(window.texts) > batcher.limits.max_rows:
                raise ValueError(
                    f"expected at most {batcher.limits.max_rows:,} rows, found more; cut the file, or use `greffe "
                    "predict`, which takes any number"
                )
            predictions = await _predict_patiently(batcher, window.texts)
            file.write(encode_rows(columns.add(window, predictions), ".csv", written))
            progress.rows += len(window.texts)
            if batcher.classifier.labels.task != "regression":
                progress.counts.update(label for found in predictions for label in found.labels or ("",))
            yield progress


async def _predict_patiently(batcher: Batcher, texts: list[str]) -> list[Prediction]:
    """A moment in which the queue is full must not cost a file that is half done; a queue that stays full does."""
    end = anyio.current_time() + batcher.limits.timeout
    while True:
        try:
            return await batcher.predict(texts)
        except BusyError:
            if anyio.current_time() >= end:
                raise
            await anyio.sleep(_RETRY)


__all__ = ["Progress", "predict_table", "read_columns"]
