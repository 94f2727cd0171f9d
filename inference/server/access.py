"""Who may ask: whoever is on this machine, or whoever has the token; and no page of another site through a browser."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope

from .bodies import LimitedBody

_OPEN = "/health"  # for probes, which have no token
_LOGIN, _COOKIE, _LONGEST_FORM = "/login", "greffe", 4096


class Access:
    """The checks of a request before anything is done for it.

    `hosts` are the names under which the server may be asked for; others are refused, so that no web page can reach a
    server on the loopback address through a name of its own. None allows any.
    """

    def __init__(self, token: str | None, hosts: set[str] | None, read_timeout: float):
        self.hosts, self.read_timeout = hosts, read_timeout
        self._token = None if token is None else token.encode()
        # What a browser that has shown the token keeps in place of it, until the server is started again.
        self._session = hmac.new(secrets.token_bytes(32), self._token or b"", hashlib.sha256).hexdigest()

    async def refuse(self, scope: Scope, receive: Receive) -> Response | None:
        """What to answer in place of the application; None lets the request pass."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            return refusal(400, f"expected a request for {' or '.join(sorted(self.hosts))}, found {host[:80]!a}")
        # Browsers say whose page makes them ask; programs do not.
        if origin is not None and origin.partition("://")[2] != host:
            return refusal(403, f"expected a request of this server's own page, found one of {origin[:80]!a}")
        if self._token is None or scope["path"] == _OPEN:
            return None
        if scope["path"] == _LOGIN and scope["method"] == "POST":
            body = LimitedBody(headers, receive, _LONGEST_FORM, self.read_timeout)
            return await self._log_in(Request(scope, body.receive))
        if self._has_token(headers) or self._has_session(headers):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return HTMLResponse(_login_page(), 401)
        found = "another" if "authorization" in headers else "none"
        message = f"expected the token of this server, found {found}; send it as `Authorization: Bearer TOKEN`"
        return refusal(401, message, {"WWW-Authenticate": "Bearer"})

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(sent)

    def _is_token(self, sent: str) -> bool:
        return self._token is not None and hmac.compare_digest(sent.strip().encode(), self._token)

    def _has_session(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session.encode())

    async def _log_in(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if not self._is_token(form.get("token", [""])[0]):
            return HTMLResponse(_login_page("That is not the token of this server."), 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(_COOKIE, self._session, httponly=True, samesite="strict")
        return answer


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """One line of why, as every error of the API."""
    return JSONResponse({"error": " ".join(message.split())}, status, headers)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_STYLE = """
:root { color-scheme: light dark; --text: #1d2330; --soft: #5d6675; --line: #c9cfd8; --back: #fff; --accent: #1f6f43; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ec; --soft: #9aa3b2; --line: #3a4150; --back: #14171c;
  --accent: #2f8f5b; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; }
form { width: min(22rem, 100vw - 2.5rem); display: grid; gap: .75rem; }
h1 { font-size: 1.4rem; margin: 0; } p { margin: 0; color: var(--soft); }
input, button { font: inherit; padding: .6rem .75rem; border-radius: .5rem; border: 1px solid var(--line); }
button { background: var(--accent); border-color: var(--accent); color: #fff; font-weight: 600; cursor: pointer; }
"""


def _login_page(message: str = "This server answers those who have its token.") -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Greffe</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{_STYLE}</style><form method="post" action="{_LOGIN}"><h1>Greffe</h1><p>{escape(message)}</p>'
        '<input type="password" name="token" aria-label="Token" placeholder="Token" autofocus required>'
        "<button>Enter</button></form></html>"
    )


__all__ = ["Access", "refusal"]
