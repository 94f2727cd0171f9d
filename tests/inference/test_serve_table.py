"""A file that is predicted for the page, while the API has a queue to work through."""

import asyncio
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from greffe.inference import Classifier, Prediction, load_classifier
from greffe.inference.server import table_job
from greffe.inference.server.batching import Batcher
from greffe.inference.server.errors import BusyError
from greffe.inference.server.limits import Limits
from greffe.inference.server.metrics import Metrics
from greffe.inference.server.table_job import predict_table
from model_server import make_texts, save_classifier

TEXTS = make_texts(50)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return load_classifier(save_classifier(tmp_path_factory.mktemp("model") / "tiny"))


class BusyBatcher(Batcher):
    """Its queue is full so many times."""

    times = 0

    async def predict(self, texts: Sequence[str]) -> list[Prediction]:
        if self.times:
            self.times -= 1
            raise BusyError("full")
        return await super().predict(texts)


def predict(classifier: Classifier, folder: Path, times: int, **limits: Any) -> list[list[str]]:
    with (folder / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in TEXTS)])

    async def run() -> None:
        async with BusyBatcher(classifier, Limits(**limits), Metrics()) as batcher:
            batcher.times = times
            async for _ in predict_table(batcher, folder / "in.csv", "text", folder / "out.csv"):
                pass

    asyncio.run(run())
    with (folder / "out.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_a_full_queue_is_waited_for(classifier: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_job, "_RETRY", 0.001)
    rows = predict(classifier, tmp_path, times=5, max_texts=20)
    assert [row[:2] for row in rows[1:]] == [[text, classifier.predict([text])[0].label] for text in TEXTS]


def test_a_queue_that_stays_full_is_an_error(classifier: Classifier, tmp_path: Path) -> None:
    with pytest.raises(BusyError):
        predict(classifier, tmp_path, times=10**9, timeout=0.1)


def test_a_short_queue_is_no_obstacle(classifier: Classifier, tmp_path: Path) -> None:
    assert len(predict(classifier, tmp_path, times=0, max_queue=7)) == 51
