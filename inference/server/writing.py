"""Texts that a language model writes: one after the other, in a thread of its own, until nobody reads on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
from greffe.inference import LanguageModel

from .errors import BusyError, TooSlowError
from .limits import Limits
from .metrics import Metrics

# Requests that may wait for the one that is being written. Each takes seconds: a longer queue would only time out.
MAX_WAITING = 32


class Writer:
    """Continuations by one language model, for one reader at a time. To be used in one event loop."""

    def __init__(self, model: LanguageModel, limits: Limits, metrics: Metrics):
        self.model, self.limits, self.metrics = model, limits, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._runs: list[Future[None]] = []

    def __len__(self) -> int:
        """Requests that wait, the one that is being written not counted."""
        return sum(not (run.running() or run.done()) for run in self._runs)

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def write(self, **settings: Any) -> AsyncGenerator[str, None]:
        """What `LanguageModel.generate` writes, piece by piece. An iterator that is closed stops the model.

        BusyError comes before the first piece. TooSlowError comes when the time is over: before the first piece if the
        turn of this text did not come, else in the middle of it.
        """
        self._runs = [run for run in self._runs if not run.done()]
        if len(self) >= MAX_WAITING:
            raise BusyError(f"expected at most {MAX_WAITING} requests to wait, found as many; send it again later")
        loop = asyncio.get_running_loop()
        end = anyio.current_time() + self.limits.timeout
        messages: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        stop = threading.Event()
        run = self._thread.submit(self._run, settings, stop, lambda item: _tell(loop, messages, item))
        self._runs.append(run)
        try:
            while (message := await self._next(messages, end)) is not None:
                yield message
            self.metrics.count_texts("written", 1)
        finally:
            stop.set()
            run.cancel()  # if its turn has not come

    def _run(self, settings: dict[str, Any], stop: threading.Event, tell: Any) -> None:
        """In the thread: write until the end, or until nobody reads on."""
        try:
            for piece in self.model.generate(**settings):
                tell(piece)
                if stop.is_set():
                    return
            tell(None)
        except Exception as error:
            tell(error)

    async def _next(self, messages: asyncio.Queue[str | Exception | None], end: float) -> str | None:
        try:
            # Not `asyncio.wait_for`: until Python 3.12 it forgets a cancellation that meets a message.
            with anyio.fail_after(max(end - anyio.current_time(), 0)):
                message = await messages.get()
        except TimeoutError:
            raise TooSlowError(
                f"expected an answer within {self.limits.timeout:g} s, found the model still at work; ask for fewer "
                "tokens, or send it again later"
            ) from None
        if isinstance(message, Exception):
            raise message
        return message


def _tell(loop: asyncio.AbstractEventLoop, messages: asyncio.Queue[Any], item: str | Exception | None) -> None:
    loop.call_soon_threadsafe(messages.put_nowait, item)


__all__ = ["Writer"]
