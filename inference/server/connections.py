"""Connections that are closed when the client keeps the server waiting.

uvicorn waits for ever for the headers of a request and for a client to take its answer. Each such connection costs
memory and a file descriptor, and a few hundred of them would keep everybody else out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def make_protocol(seconds: float) -> type[H11Protocol]:
    """The protocol for `uvicorn.Config(http=…)`: so long to send headers, and so long to take what was sent."""

    class ImpatientProtocol(H11Protocol):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            self._headers, self._reader = _Patience(self.loop, seconds), _Patience(self.loop, seconds)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._headers.start(self.transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:  # a part of the headers of this request, or of the next
                self._headers.start(self.transport.abort)
            else:
                self._headers.stop()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reader.start(self.transport.abort)

        def resume_writing(self) -> None:
            self._reader.stop()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._headers.stop()
            self._reader.stop()
            super().connection_lost(exc)

    return ImpatientProtocol


class _Patience:
    """A wait that comes to an end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float):
        self._loop, self._seconds = loop, seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self, give_up: Callable[[], None]) -> None:
        """Unless it has started already: more of the same does not make it longer."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, give_up)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


__all__ = ["make_protocol"]
