"""What every request passes first, and is counted by on its way out."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Access, refusal
from .bodies import LimitedBody, check_announced
from .limits import Limits
from .metrics import Metrics

ENDPOINTS = ("/predict", "/generate", "/openapi.json", "/health", "/metrics")
_UPLOAD, _HEARTBEAT = "/gradio_api/upload", "/gradio_api/heartbeat/"
_MULTIPART = 1 << 16  # bytes around an uploaded file
# The page is served whole from here: a browser is told to fetch nothing from elsewhere.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin"}


class GuardedApp:
    """An application behind the checks of every request."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, metrics: Metrics):
        self.app, self.access, self.limits, self.metrics = app, access, limits, metrics
        self._heartbeats: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the start and the end of the server; websockets are off
            await self.app(scope, receive, send)
        elif scope["path"].startswith(_HEARTBEAT):
            await self._hold(scope, receive, send)
        else:
            await self._count(scope, receive, send)

    def close_pages(self) -> None:
        """End what pages hold open for as long as they are shown: the server is going."""
        for heartbeat in self._heartbeats:
            heartbeat.cancel()

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.create_task(self._answer(scope, receive, send))
        self._heartbeats.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._heartbeats.discard(task)
            task.cancel()

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.perf_counter(), 499  # as long as nothing is sent: the client has left

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, send_counted)
        finally:
            endpoint = scope["path"] if scope["path"] in ENDPOINTS else "page"
            self.metrics.count_request(endpoint, status, time.perf_counter() - start)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_upload, headers = scope["path"] == _UPLOAD, Headers(scope=scope)
        longest = self.limits.max_upload + _MULTIPART if is_upload else self.limits.max_body
        seconds = self.limits.timeout if is_upload else self.limits.read_timeout
        body = LimitedBody(headers, receive, longest, seconds)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(raw=message.setdefault("headers", []))
                added.update(_HEADERS)
                if not body.is_complete:  # the server would read the rest, however long it is
                    added["Connection"] = "close"
            await send(message)

        try:
            refused = await self.access.refuse(scope, body.receive)
            if refused is None:
                check_announced(headers.get("content-length", ""), longest)
        except HTTPException as error:
            refused = refusal(error.status_code, error.detail)
        except ClientDisconnect:
            return
        await (refused or self.app)(scope, body.receive, send_safely)


__all__ = ["ENDPOINTS", "GuardedApp"]
