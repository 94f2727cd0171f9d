"""Run the server of a model: load it, open a socket, and say in a few lines how to use both."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greffe.hub.serving import is_loopback, listen

from .limits import Limits

if TYPE_CHECKING:
    from .guard import GuardedApp
    from .workers import Worker

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_KEEP_ALIVE = 30  # seconds that a connection may do nothing
_GRACE = 5  # seconds for the last answers to be written, once the time of every request is over


def serve(
    model: str | os.PathLike[str],
    *,
    compare: str | os.PathLike[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8422,
    token: str | None = None,
    page: bool = True,
    limits: Limits | None = None,
) -> None:
    """Serve until interrupted; SIGTERM lets the requests that are under way end, and returns.

    Whoever is on this machine may ask; from anywhere else, and then from here too, a token is needed.
    """
    limits = limits or Limits()
    _check_options(host, token, page, compare)
    try:
        import uvicorn

        from . import app as _  # noqa: F401 - needs starlette
    except ImportError as error:
        raise _missing(error) from error
    listener = listen(host, port)
    with tempfile.TemporaryDirectory(prefix="greffe-", ignore_cleanup_errors=True) as folder:
        app, kind = _make_guarded_app(model, compare, host, token, limits, folder if page else None)
        _print_usage(_name(model), kind, host, listener, token is not None, page)
        config = uvicorn.Config(app, **_uvicorn_options(limits))
        # uvicorn raises the signal that ended it again once all is done: this time it must not kill.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        _make_server(config, app).run(sockets=[listener])


def _check_options(host: str, token: str | None, page: bool, compare: object) -> None:
    if token == "":
        raise ValueError(
            "expected a token, found an empty one; give another, or neither --token nor $GREFFE_SERVE_TOKEN"
        )
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("expected a token of printable ASCII characters without spaces, found another")
    if token is None and not is_loopback(host):
        raise ValueError(f"expected --token for --host {host}, where others can reach the server, found none")
    if compare is not None and not page:
        raise ValueError("expected --compare with the page, which shows both models, found --no-page")


def _make_guarded_app(
    model: str | os.PathLike[str],
    compare: str | os.PathLike[str] | None,
    host: str,
    token: str | None,
    limits: Limits,
    page_folder: str | None,
) -> tuple[GuardedApp, str]:
    from .access import Access
    from .app import make_app
    from .guard import GuardedApp
    from .metrics import Metrics
    from .workers import describe_kind, load_pair, load_worker

    metrics = Metrics()
    if compare is None:
        workers, names = [load_worker(model, limits, metrics)], [_name(model)]
    else:
        workers, names = [*load_pair(model, compare, limits, metrics)], [_name(model), _name(compare)]
    app = make_app(names[0], workers, limits, metrics, token is not None)
    if page_folder is not None:
        _mount_page(app, names, workers, limits, page_folder)
    hosts = {*_LOOPBACK, host} if is_loopback(host) else None
    access = Access(token, hosts, limits.read_timeout)
    return GuardedApp(app, access, limits, metrics), describe_kind(workers[0])


def _mount_page(app: Any, names: list[str], workers: list[Worker], limits: Limits, folder: str) -> None:
    # Gradio reads these when it is imported, or at any time after.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = folder
    try:
        from .page import mount_page
    except ImportError as error:
        raise _missing(error) from error
    mount_page(app, names, workers, limits)


def _missing(error: ImportError) -> ImportError:
    return ImportError(
        f"serving needs {error.name}, which is not installed: pip install greffe[serve]; --no-page needs no gradio"
    )


def _uvicorn_options(limits: Limits) -> dict[str, Any]:
    from .connections import make_protocol

    return {
        "http": make_protocol(limits.read_timeout),
        "ws": "none",
        "lifespan": "on",
        "log_level": "warning",
        "server_header": False,
        "limit_concurrency": limits.max_connections,
        "timeout_keep_alive": _KEEP_ALIVE,
        "timeout_graceful_shutdown": int(limits.timeout) + _GRACE,
    }


def _make_server(config: Any, app: GuardedApp) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.close_pages()  # which would be waited for as if they were requests
            await super().shutdown(sockets)

    return Server(config)


def _name(model: str | os.PathLike[str]) -> str:
    """What people call a model: its name in the hub, or that of its folder."""
    path = Path(model)
    return path.resolve().name if path.is_dir() else str(model)


def _print_usage(name: str, kind: str, host: str, listener: socket.socket, with_token: bool, page: bool) -> None:
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    print(f"{name}, {kind}, at {address}")
    header = "-H 'Authorization: Bearer TOKEN' " if with_token else ""
    path, body = ("/predict", '{"texts": ["…"]}') if kind == "a classifier" else ("/generate", '{"prompt": "…"}')
    if page:
        print(f"  page:  {address}/")
    print(f"  API:   curl {header}{address}{path} -d '{body}'")
    print(f"         {address}/openapi.json, /health, /metrics")
    print("  stop with Ctrl-C", flush=True)


__all__ = ["serve"]
