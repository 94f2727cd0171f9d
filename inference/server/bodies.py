"""The body of a request, as far as the server is willing to read it."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

# A body that is too long by no more than this factor is read to its end and dropped, before it is refused: a client
# that is still writing when the connection is closed does not read why.
_DROPPED = 16


def check_announced(length: str, longest: int) -> None:
    """Refuse at once what says itself that it is far too long."""
    if length.isdecimal() and int(length) > longest * _DROPPED:
        raise HTTPException(413, f"expected a body of at most {longest:,} bytes, found {int(length):,}")


class LimitedBody:
    """The messages of a body that is refused once it is too long, whatever it announced, or too slow.

    The time is that of the whole body: a client that sends a byte now and then gains nothing.
    """

    def __init__(self, headers: Headers, receive: Receive, longest: int, seconds: float):
        self._receive, self._longest, self._seconds, self._size = receive, longest, seconds, 0
        self._end = anyio.current_time() + seconds
        # Whether all of it is here. As long as it is not, the connection is of no use for another request.
        self.is_complete = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        if self.is_complete:  # what comes now is the client's leaving, whenever that is
            return await self._receive()
        message = await self._receive_piece()
        if self._size > self._longest:
            while not self.is_complete and self._size <= self._longest * _DROPPED:
                await self._receive_piece()
            raise HTTPException(413, f"expected a body of at most {self._longest:,} bytes, found more")
        return message

    async def _receive_piece(self) -> Message:
        try:
            with anyio.fail_after(max(self._end - anyio.current_time(), 0)):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(
                408, f"expected the body within {self._seconds:g} s, found {self._size:,} bytes of it"
            ) from None
        self._size += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message


__all__ = ["LimitedBody", "check_announced"]
