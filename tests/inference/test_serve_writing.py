"""Texts that are written for readers: together, each the one that the model writes alone, until the reader leaves."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from greffe.inference import LanguageModel, decoding, load_language_model
from greffe.inference.server.errors import BusyError, TooLongError, TooSlowError
from greffe.inference.server.limits import Limits
from greffe.inference.server.metrics import Metrics
from greffe.inference.server.writing import Writer
from model_server import make_texts, save_language_model, until

DEFAULTS = {"max_new_tokens": 20, "temperature": 0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0, "seed": None}
ENDLESS = {**DEFAULTS, "prompt": "un livre", "max_new_tokens": 100_000_000}
SHORT = {**DEFAULTS, "prompt": "la", "max_new_tokens": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load_language_model(save_language_model(tmp_path_factory.mktemp("model") / "tiny"))


def run(model: LanguageModel, work: Any, metrics: Metrics | None = None, **limits: Any) -> Any:
    async def main() -> Any:
        async with Writer(model, Limits(**limits), metrics or Metrics()) as writer:
            return await work(writer)

    return asyncio.run(main())


async def read(writer: Writer, settings: dict[str, Any], pieces: int | None = None) -> str:
    """The text, or its first pieces: then the reader leaves."""
    text = []
    async with aclosing(writer.write(**settings)) as iterator:
        async for piece in iterator:
            text.append(piece)
            if len(text) == pieces:
                break
    return "".join(text)


@contextmanager
def watched(model: LanguageModel, look: Any) -> Iterator[None]:
    """Call `look` with the ids, (B, T), each time they have gone through the model."""

    def call(module: Any, inputs: Any, output: Any) -> None:
        look(inputs[0])

    hook = model.model.register_forward_hook(call)
    try:
        yield
    finally:
        hook.remove()


def test_a_hundred_at_once_get_what_each_gets_alone(model: LanguageModel) -> None:
    asked = [
        {**DEFAULTS, "prompt": text, "max_new_tokens": 1 + number % 12}
        | ({"temperature": 0.9, "seed": number} if number % 3 == 0 else {})
        for number, text in enumerate(make_texts(150))
    ]
    metrics = Metrics()

    async def work(writer: Writer) -> list[str]:
        return await asyncio.gather(*(read(writer, settings) for settings in asked))

    found = run(model, work, metrics, max_batch=16)
    assert found == ["".join(model.generate(**settings)) for settings in asked]
    assert len(set(found)) > 50, "texts that are all the same would hide a mix-up"
    written = metrics.render()
    assert 'greffe_texts_total{kind="written"} 150' in written
    steps = int(written.split("greffe_batch_size_count ")[1].split()[0])
    tokens = sum(settings["max_new_tokens"] - 1 for settings in asked)  # the first comes with the prompt
    assert steps < tokens / 4
    assert f'greffe_batch_size_bucket{{le="16"}} {steps}' in written


def test_one_at_a_time_if_asked_for(model: LanguageModel) -> None:
    metrics = Metrics()

    async def work(writer: Writer) -> list[str]:
        return await asyncio.gather(*(read(writer, SHORT) for _ in range(5)))

    assert len(set(run(model, work, metrics, max_batch=1))) == 1
    assert 'greffe_batch_size_bucket{le="1"} 5' in metrics.render()
    assert 'greffe_batch_size_bucket{le="+Inf"} 5' in metrics.render()


def test_who_comes_later_does_not_wait_for_the_end_of_the_others(model: LanguageModel) -> None:
    async def work(writer: Writer) -> None:
        endless = asyncio.create_task(read(writer, ENDLESS))
        await asyncio.sleep(0.1)
        assert await read(writer, SHORT) == "".join(model.generate(**SHORT))
        assert not endless.done()
        endless.cancel()

    run(model, work)


def test_a_reader_who_leaves_stops_the_model(model: LanguageModel) -> None:
    """One is written at a time: the next one's turn comes only if the model has stopped."""

    async def work(writer: Writer) -> None:
        first = await read(writer, ENDLESS, pieces=3)
        assert len(first.split()) == 3
        assert await read(writer, SHORT)

    run(model, work, max_batch=1, timeout=20)


def test_who_leaves_the_queue_is_not_written_for(model: LanguageModel) -> None:
    async def work(writer: Writer) -> None:
        endless = asyncio.create_task(read(writer, ENDLESS))
        await until(lambda: writer._requests)
        waiting = [asyncio.create_task(read(writer, ENDLESS)) for _ in range(5)]
        await until(lambda: len(writer) == 5)
        with pytest.raises(BusyError, match="expected at most 5 texts to wait for the model, found as many"):
            await read(writer, SHORT)
        for task in (*waiting, endless):
            task.cancel()
        await asyncio.wait([*waiting, endless])
        assert len(writer) == 0
        assert await read(writer, SHORT)

    run(model, work, max_batch=1, max_queue=5)


def test_time_runs_out_in_the_queue(model: LanguageModel) -> None:
    go = threading.Event()

    async def work(writer: Writer) -> list[object]:
        tasks = [asyncio.create_task(read(writer, ENDLESS)) for _ in range(3)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        go.set()
        writer.limits = replace(writer.limits, timeout=20)
        assert await read(writer, SHORT)
        return results

    with watched(model, lambda ids: go.wait(20)):
        results = run(model, work, timeout=0.3)
    assert [type(result) for result in results] == [TooSlowError] * 3
    assert "expected an answer within 0.3 s" in str(results[0])


def test_time_runs_out_in_the_text(model: LanguageModel) -> None:
    text: list[str] = []

    async def work(writer: Writer) -> None:
        async for piece in writer.write(**ENDLESS):
            text.append(piece)

    with pytest.raises(TooSlowError, match="expected an answer within 2 s"):
        run(model, work, timeout=2)
    assert len(text) > 1
    assert "".join(text) == "".join(model.generate(**{**ENDLESS, "max_new_tokens": len(text)}))


def test_a_long_prompt_that_nobody_waits_for_is_left(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_CHUNK", 16)
    lengths: list[int] = []

    def look(ids: Any) -> None:
        lengths.append(ids.shape[1])
        time.sleep(0.01)

    async def work(writer: Writer) -> None:
        task = asyncio.create_task(read(writer, {**DEFAULTS, "prompt": "un livre " * 2000}))
        await until(lambda: len(lengths) > 2)
        task.cancel()
        await read(writer, SHORT)

    with watched(model, look):
        run(model, work)
    assert max(lengths) == 16
    assert len(lengths) < 100


def test_others_are_written_for_while_a_long_prompt_is_read(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_CHUNK", 16)
    lengths: list[int] = []

    async def work(writer: Writer) -> None:
        endless = asyncio.create_task(read(writer, ENDLESS))
        await until(lambda: writer._requests)
        await read(writer, {**DEFAULTS, "prompt": "un livre " * 200}, pieces=1)
        endless.cancel()

    with watched(model, lambda ids: lengths.append(ids.shape[1])):
        run(model, work)
    start, end = lengths.index(16), len(lengths) - 1 - lengths[::-1].index(16)
    assert lengths[start:end].count(16) == lengths[start:end].count(1) == 24


def test_a_prompt_has_a_length(model: LanguageModel) -> None:
    async def work(writer: Writer) -> None:
        with pytest.raises(TooLongError, match="expected a prompt of at most 9 tokens, found 10; send a shorter one"):
            await read(writer, {**SHORT, "prompt": "un " * 9})
        assert await read(writer, {**SHORT, "prompt": "un " * 8})

    run(model, work, max_prompt_tokens=9)


def test_an_error_of_the_model_reaches_the_readers_and_no_others(model: LanguageModel) -> None:
    def stumble(ids: Any) -> None:
        if ids.shape == (2, 1):
            raise RuntimeError("stumbled")

    async def work(writer: Writer) -> None:
        tasks = [read(writer, ENDLESS), read(writer, ENDLESS)]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert str(result) == "stumbled"
        assert await read(writer, SHORT)
        with pytest.raises(ValueError, match="expected a temperature of 0, or from"):
            await read(writer, {**SHORT, "temperature": -1})
        assert await read(writer, SHORT)
        assert writer.is_alive

    with watched(model, stumble):
        run(model, work)
