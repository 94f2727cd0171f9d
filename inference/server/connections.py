"""Connections that are closed when the client keeps the server waiting.

uvicorn waits for ever for the headers of a request and for a client to take its answer. Each such connection costs
memory and a file descriptor, and a few hundred of them would keep everybody else out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def make_protocol(seconds: float) -> type[H11Protocol]:
    """The protocol for `uvicorn.Config(http=…)`: so long to send headers, and so long to take what was sent."""

    class ImpatientProtocol(H11Protocol):
        _headers_timer: asyncio.TimerHandle | None = None
        _answer_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._headers_timer = self.loop.call_later(seconds, self.transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._headers_timer = _stop(self._headers_timer)
            elif self._headers_timer is None:  # a part of the headers of a further request
                self._headers_timer = self.loop.call_later(seconds, self.transport.abort)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._answer_timer is None:
                self._answer_timer = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._answer_timer = _stop(self._answer_timer)
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._headers_timer, self._answer_timer = _stop(self._headers_timer), _stop(self._answer_timer)
            super().connection_lost(exc)

    return ImpatientProtocol


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


__all__ = ["make_protocol"]
