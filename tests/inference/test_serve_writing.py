"""Texts that are written for readers: one at a time, until the reader leaves."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from greffe.inference import LanguageModel, load_language_model
from greffe.inference.server.errors import BusyError, TooSlowError
from greffe.inference.server.limits import Limits
from greffe.inference.server.metrics import Metrics
from greffe.inference.server.writing import MAX_WAITING, Writer
from model_server import save_language_model

ENDLESS = {"prompt": "un livre", "max_new_tokens": 3000, "temperature": 0, "use_cache": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load_language_model(save_language_model(tmp_path_factory.mktemp("model") / "tiny"))


def run(model: LanguageModel, work: Any, **limits: Any) -> Any:
    async def main() -> Any:
        async with Writer(model, Limits(**limits), Metrics()) as writer:
            return await work(writer)

    return asyncio.run(main())


async def read(writer: Writer, pieces: int | None = None, **settings: Any) -> str:
    """The text, or its first pieces: then the reader leaves."""
    text = []
    async with aclosing(writer.write(**settings)) as iterator:
        async for piece in iterator:
            text.append(piece)
            if len(text) == pieces:
                break
    return "".join(text)


def test_the_text_is_the_models(model: LanguageModel) -> None:
    settings = {"prompt": "un livre", "max_new_tokens": 20, "seed": 3}

    async def work(writer: Writer) -> list[str]:
        return await asyncio.gather(*(read(writer, **settings) for _ in range(3)))

    expected = "".join(model.generate(**settings))
    assert expected
    assert run(model, work) == [expected] * 3


def test_a_reader_who_leaves_stops_the_model(model: LanguageModel) -> None:
    async def work(writer: Writer) -> float:
        first = await read(writer, pieces=3, **ENDLESS)
        assert len(first.split()) == 3
        start = time.perf_counter()
        assert await read(writer, prompt="la", max_new_tokens=2, temperature=0)
        return time.perf_counter() - start

    assert run(model, work) < 5


def test_who_leaves_the_queue_is_not_written_for(model: LanguageModel) -> None:
    async def work(writer: Writer) -> None:
        endless = asyncio.create_task(read(writer, **ENDLESS))
        await asyncio.sleep(0.05)
        waiting = [asyncio.create_task(read(writer, **ENDLESS)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0.05)
        assert len(writer) == MAX_WAITING
        with pytest.raises(BusyError, match=f"expected at most {MAX_WAITING} requests to wait"):
            await read(writer, prompt="la")
        for task in (*waiting, endless):
            task.cancel()
        await asyncio.wait([*waiting, endless])
        assert len(writer) == 0
        assert await read(writer, prompt="la", max_new_tokens=2, temperature=0)

    run(model, work)


def test_time_runs_out_in_the_queue_and_in_the_text(model: LanguageModel) -> None:
    async def work(writer: Writer) -> tuple[str, Any]:
        text: list[str] = []

        async def keep() -> None:
            async for piece in writer.write(**ENDLESS):
                text.append(piece)

        async def come_later() -> None:
            await asyncio.sleep(0.05)
            await asyncio.wait_for(anext(writer.write(**ENDLESS)), 10)

        results = await asyncio.gather(keep(), come_later(), return_exceptions=True)
        return "".join(text), results

    text, results = run(model, work, timeout=0.5)
    assert [type(result) for result in results] == [TooSlowError] * 2 or isinstance(results[0], TooSlowError)
    assert "expected an answer within 0.5 s" in str(results[0])
    assert text


def test_an_error_of_the_model_reaches_the_reader(model: LanguageModel) -> None:
    def work(writer: Writer) -> Coroutine[Any, Any, str]:
        return read(writer, prompt="la", temperature=-1)

    with pytest.raises(ValueError, match="expected a temperature of at least 0"):
        run(model, work)
