"""Texts that a language model writes: those of all who ask together, in a thread of its own, until nobody reads on.

A text joins the others between two tokens, as soon as there is room, and leaves them when it is over or its reader is
gone. A text is the one that the model would write alone, but for the rounding of numbers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from greffe.inference import LanguageModel
from greffe.inference.decoding import Continuation, Prompt, TextBatch

from .errors import BusyError, TooLongError, TooSlowError
from .limits import Limits
from .metrics import Metrics

# A piece of the text, what went wrong, or None for the end.
_Message = str | Exception | None


@dataclass(eq=False)
class _Request:
    settings: dict[str, Any]
    messages: asyncio.Queue[_Message] = field(default_factory=asyncio.Queue)
    is_gone: bool = False  # nobody reads on


class Writer:
    """Continuations by one language model, for whoever asks at the same time. To be used in one event loop."""

    def __init__(self, model: LanguageModel, limits: Limits, metrics: Metrics):
        self.model, self.limits, self.metrics = model, limits, metrics
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()  # guards what waits, and whether the server goes
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        # Of the thread alone: the prompt that is being read, and the texts that are being written.
        self._reading: tuple[_Request, Prompt] | None = None
        self._batch = TextBatch(model.model)
        self._requests: dict[Continuation, _Request] = {}

    def __len__(self) -> int:
        """Requests that wait, those that are being written not counted."""
        return len(self._waiting)

    @property
    def is_alive(self) -> bool:
        """Whether there is still somebody to write."""
        return self._thread.is_alive()

    async def __aenter__(self) -> Writer:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    async def write(self, **settings: Any) -> AsyncGenerator[str, None]:
        """What `LanguageModel.generate` writes, piece by piece. An iterator that is closed stops the model.

        BusyError and TooLongError come before the first piece. TooSlowError comes when the time is over: before the
        first piece if the turn of this text did not come, else in the middle of it.
        """
        end = anyio.current_time() + self.limits.timeout
        request = _Request(settings)
        with self._changed:
            if len(self) >= self.limits.max_queue:
                raise BusyError(
                    f"expected at most {self.limits.max_queue:,} texts to wait for the model, found as many; send it "
                    "again later"
                )
            self._waiting.append(request)
            self._changed.notify()
        try:
            while (message := await self._next(request.messages, end)) is not None:
                yield message
            self.metrics.count_texts("written", 1)
        finally:
            request.is_gone = True
            with self._changed, suppress(ValueError):
                self._waiting.remove(request)

    async def _next(self, messages: asyncio.Queue[_Message], end: float) -> str | None:
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

    # ---- in the thread

    def _work(self) -> None:
        """By turns a chunk of a prompt and a token of every text, until the server goes."""
        while self._admit():
            self._read()
            self._step()

    def _admit(self) -> bool:
        """Begin the text whose turn it is, if there is a place; wait if there is nothing else to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._waiting or self._reading or self._requests)
            if self._is_closed:
                return False
            if self._reading or not self._waiting or len(self._requests) >= self.limits.max_batch:
                return True
            request = self._waiting.popleft()
        try:
            prompt = Prompt(self.model.model, self.model.begin(**request.settings))
            if prompt.length > self.limits.max_prompt_tokens:
                raise TooLongError(
                    f"expected a prompt of at most {self.limits.max_prompt_tokens:,} tokens, found {prompt.length:,}; "
                    "send a shorter one"
                )
            self._reading = request, prompt
        except Exception as error:
            self._tell([(request, error)])
        return True

    def _read(self) -> None:
        """A chunk of the prompt whose turn it is; after the last one its text is written with the others."""
        if self._reading is None:
            return
        request, prompt = self._reading
        if request.is_gone:
            self._reading = None
        if request.is_gone or not self._batch.has_room(prompt):
            return
        try:
            logits = prompt.read()
            if logits is None:
                return
            self._reading = None
            self._tell([(request, prompt.text.add(logits))])
            if prompt.text.is_over:
                self._tell([(request, None)])
            else:
                self._batch.join(prompt)
                self._requests[prompt.text] = request
        except Exception as error:
            self._reading = None
            self._tell([(request, error)])

    def _step(self) -> None:
        """A token of every text that somebody still reads."""
        self._leave([text for text, request in self._requests.items() if request.is_gone])
        if not self._requests:
            return
        self.metrics.count_batch(len(self._requests))
        try:
            pieces = self._batch.step()
        except Exception as error:
            self._tell([(request, error) for request in self._requests.values()])
            self._leave(list(self._requests))
            return
        over = [text for text, _ in pieces if text.is_over]
        written: list[tuple[_Request, _Message]] = [(self._requests[text], piece) for text, piece in pieces]
        self._tell([*written, *((self._requests[text], None) for text in over)])
        self._leave(over)

    def _leave(self, texts: list[Continuation]) -> None:
        self._batch.remove(texts)
        for text in texts:
            del self._requests[text]

    def _tell(self, messages: list[tuple[_Request, _Message]]) -> None:
        """All in one call: waking the event loop for each would cost it more than the messages."""
        self._loop.call_soon_threadsafe(_deliver, messages)


def _deliver(messages: list[tuple[_Request, _Message]]) -> None:
    for request, message in messages:
        if message != "":  # in the middle of a character
            request.messages.put_nowait(message)


__all__ = ["Writer"]
