"""Who may do what: reading is open, writing needs the token, and browsers cannot be made to write for others."""

from __future__ import annotations

import hmac
import re
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Requests that change nothing although they are not GET, and uploads, which have permissions of their own.
_OPEN = re.compile(r"/api/validate-yaml|/api/models/[^/]+/[^/]+/paths-info/.*|/uploads/.*|/xet/.*", re.DOTALL)
# Requests that are GET and give what only writers may have.
_CLOSED = re.compile(r"/api/whoami-v2|/api/models/[^/]+/[^/]+/xet-write-token/.*", re.DOTALL)
# The one message of a 401 that clients do not take for a missing repository.
_BAD_TOKEN = "Invalid credentials in Authorization header"


class GuardedApp:
    """An application behind the checks of every request.

    `hosts` are the names under which the server may be asked for; others are refused, so that no web page can reach a
    server on the loopback address through a name of its own. None allows any.
    """

    def __init__(self, app: ASGIApp, token: str | None, insecure_writes: bool, hosts: set[str] | None):
        self.app, self.token, self.insecure_writes, self.hosts = app, token, insecure_writes, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refuse(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", []).append((b"x-content-type-options", b"nosniff"))
            await send(message)

        await self.app(scope, receive, send_safely)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            return _answer(400, f"expected a request for {' or '.join(sorted(self.hosts))}, found {host[:80]!a}")
        path, writes = scope["path"], scope["method"] not in ("GET", "HEAD")
        if not _CLOSED.fullmatch(path) and (not writes or _OPEN.fullmatch(path)):
            return None
        # Browsers send an origin with whatever a page of another site makes them write; clients send none.
        if "origin" in headers:
            return _answer(403, "expected a client of the Hub, found a web page that writes")
        return self._check_token(headers)

    def _check_token(self, headers: Headers) -> Response | None:
        if self.insecure_writes:
            return None
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        expected = (self.token or "").encode()
        if expected and scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), expected):
            return None
        found = "another token" if sent else "none"
        return _answer(
            401, f"expected the token of this server, found {found}; set HF_TOKEN to what `greffe hub serve` was given"
        )


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _answer(status: int, message: str) -> Response:
    line = _BAD_TOKEN if status == 401 else message.encode("ascii", "backslashreplace").decode()
    headers: dict[str, Any] = {"X-Error-Message": line, "Connection": "close"}
    return JSONResponse({"error": message}, status, headers)


def base_url(request: Request) -> str:
    """The address that the client used, without a final slash."""
    return str(request.base_url).rstrip("/")


__all__ = ["GuardedApp", "base_url"]
