"""Requests that arrive together: one batch, each with the answer that it would have got alone."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from greffe.inference import Classifier, Explanation, Prediction, explain, load_classifier
from greffe.inference.server import batching
from greffe.inference.server.batching import MAX_EXPLANATIONS, Batcher
from greffe.inference.server.errors import BusyError, TooSlowError
from greffe.inference.server.limits import Limits
from greffe.inference.server.metrics import Metrics
from model_server import make_texts, save_classifier, until


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return load_classifier(save_classifier(tmp_path_factory.mktemp("model") / "tiny", labels=("a", "b", "c")))


class Watched(Classifier):
    """A classifier that can be held up, that remembers its batches, and that stumbles over one text."""

    def __init__(self, classifier: Classifier):
        super().__init__(**{name: getattr(classifier, name) for name in classifier.__dataclass_fields__})
        self.batches: list[list[str]] = []
        self.held = 0
        self.go = threading.Event()
        self.go.set()

    def predict(self, texts: Sequence[str], *arguments: object, **options: object) -> list[Prediction]:
        self.held += 1
        self.go.wait(20)
        self.held -= 1
        self.batches.append(list(texts))
        if "stumble" in texts:
            raise RuntimeError("stumbled")
        return super().predict(texts, *arguments, **options)


def test_batched_answers_are_those_of_each_text_alone(classifier: Classifier) -> None:
    texts = make_texts(150)
    requests = [texts[start : start + size] for start, size in zip(range(0, 150, 3), [1, 2, 3] * 50, strict=False)]
    metrics = Metrics()

    async def ask_all() -> list[list[Prediction]]:
        async with Batcher(classifier, Limits(max_batch=16), metrics) as batcher:
            return await asyncio.gather(*(batcher.predict(request) for request in requests))

    answers = asyncio.run(ask_all())
    for request, answer in zip(requests, answers, strict=True):
        for text, found in zip(request, answer, strict=True):
            alone = classifier.predict([text])[0]
            assert found.labels == alone.labels
            assert found.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    asked = sum(map(len, requests))
    assert f'greffe_texts_total{{kind="read"}} {asked}' in metrics.render()
    batches = int(metrics.render().split("greffe_batch_size_count ")[1].split()[0])
    assert batches <= asked / 10
    labels = {prediction.label for answer in answers for prediction in answer}
    assert len(labels) > 1, "texts that all get one answer would hide a mix-up"


def test_batches_hold_texts_of_about_one_length(classifier: Classifier) -> None:
    watched = Watched(classifier)
    texts = make_texts(64)

    async def ask_all() -> None:
        async with Batcher(watched, Limits(max_batch=16), Metrics()) as batcher:
            await batcher.predict(texts)

    asyncio.run(ask_all())
    assert [len(batch) for batch in watched.batches] == [16] * 4
    assert [text for batch in watched.batches for text in batch] == sorted(texts, key=len)


def test_a_text_that_fails_does_not_spoil_the_others(classifier: Classifier) -> None:
    watched = Watched(classifier)

    async def ask_all() -> list[object]:
        async with Batcher(watched, Limits(), Metrics()) as batcher:
            requests = (["un livre"], ["un", "stumble"], ["la", "une"])
            answers = await asyncio.gather(*map(batcher.predict, requests), return_exceptions=True)
            assert (await batcher.predict(["un film"]))[0].label
            return answers

    first, second, third = asyncio.run(ask_all())
    assert first == classifier.predict(["un livre"])
    assert isinstance(second, RuntimeError)
    assert len(third) == 2


def test_a_full_queue_refuses_and_recovers(classifier: Classifier) -> None:
    watched = Watched(classifier)

    async def ask() -> None:
        async with Batcher(watched, Limits(max_queue=4, max_batch=1, batch_milliseconds=0), Metrics()) as batcher:
            watched.go.clear()
            held = asyncio.create_task(batcher.predict(["un"]))
            await until(lambda: watched.held)
            waiting = asyncio.create_task(batcher.predict(["la", "le", "une", "bon"]))
            await until(lambda: len(batcher) == 4)
            with pytest.raises(BusyError, match="expected at most 4 texts to wait for the model, found 4 before the 1"):
                await batcher.predict(["film"])
            watched.go.set()
            await asyncio.gather(held, waiting)
            assert (await batcher.predict(["film"]))[0].label

    asyncio.run(ask())


def test_who_has_left_is_not_worked_for(classifier: Classifier) -> None:
    watched = Watched(classifier)

    async def ask() -> None:
        async with Batcher(watched, Limits(batch_milliseconds=0), Metrics()) as batcher:
            watched.go.clear()
            held = asyncio.create_task(batcher.predict(["un"]))
            await until(lambda: watched.held)
            left = asyncio.create_task(batcher.predict(["la"]))
            stays = asyncio.create_task(batcher.predict(["le"]))
            await until(lambda: len(batcher) == 2)
            left.cancel()
            await asyncio.sleep(0)
            watched.go.set()
            await asyncio.gather(held, stays)

    asyncio.run(ask())
    assert watched.batches == [["un"], ["le"]]


def test_time_runs_out(classifier: Classifier) -> None:
    watched = Watched(classifier)

    async def ask() -> None:
        async with Batcher(watched, Limits(timeout=0.1), Metrics()) as batcher:
            watched.go.clear()
            with pytest.raises(TooSlowError, match=r"expected an answer within 0\.1 s"):
                await batcher.predict(["un"])
            watched.go.set()
            batcher.limits = Limits(timeout=20)
            assert (await batcher.predict(["un"]))[0].label

    asyncio.run(ask())


@pytest.fixture
def held_explanations(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Explanations wait for this."""
    go = threading.Event()

    def wait(classifier: Classifier, text: str) -> Explanation:
        go.wait(20)
        return explain(classifier, text)

    monkeypatch.setattr(batching, "explain", wait)
    return go


def test_explanations_hold_up_no_batch_and_are_limited(
    classifier: Classifier, held_explanations: threading.Event
) -> None:
    async def ask() -> list[Explanation]:
        async with Batcher(classifier, Limits(timeout=20), Metrics()) as batcher:
            waiting = [asyncio.create_task(batcher.explain("un livre")) for _ in range(MAX_EXPLANATIONS)]
            await asyncio.sleep(0)  # each has taken its place
            with pytest.raises(BusyError, match="expected at most 16 explanations at once, found as many"):
                await batcher.explain("un livre")
            assert (await batcher.predict(["un film"]))[0].label
            assert not any(task.done() for task in waiting)
            held_explanations.set()
            found = await asyncio.gather(*waiting)
            return [*found, await batcher.explain("un livre")]

    assert asyncio.run(ask()) == [explain(classifier, "un livre")] * (MAX_EXPLANATIONS + 1)


def test_the_time_of_an_explanation_runs_out(classifier: Classifier, held_explanations: threading.Event) -> None:
    async def ask() -> None:
        async with Batcher(classifier, Limits(timeout=0.1), Metrics()) as batcher:
            with pytest.raises(TooSlowError, match=r"expected an explanation within 0\.1 s"):
                await batcher.explain("un livre")
            held_explanations.set()
            batcher.limits = Limits(timeout=20)
            assert await batcher.explain("un livre") == explain(classifier, "un livre")

    asyncio.run(ask())
