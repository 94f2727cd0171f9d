"""Run the server: a socket, a token, and a few lines that say how to use both."""

from __future__ import annotations

import ipaddress
import secrets
import socket

from .store import LocalHub


def serve(
    hub: LocalHub,
    *,
    host: str = "127.0.0.1",
    port: int = 8421,
    token: str | None = None,
    insecure_writes: bool = False,
    allow_pickle: bool = False,
) -> None:
    """Serve until interrupted. Without a token one is made and printed, unless writes are to be open."""
    if token is not None and insecure_writes:
        raise ValueError("expected --token or --insecure-writes, found both")
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token or not token):
        raise ValueError("expected a token of printable ASCII characters without spaces, found another")
    try:
        import lz4.frame  # noqa: F401 - needed by the first large upload: better missed now
        import uvicorn

        from .server import make_app
    except ImportError as error:
        raise ImportError(f"serving needs {error.name}, which is not installed: pip install greffe[hub]") from error

    listener = listen(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    made = secrets.token_urlsafe(24) if token is None and not insecure_writes else None
    _print_usage(hub, address, made, insecure_writes)
    app = make_app(
        hub,
        token or made,
        insecure_writes=insecure_writes,
        allow_pickle=allow_pickle,
        hosts={"localhost", "127.0.0.1", "::1", host} if is_loopback(host) else None,
    )
    config = uvicorn.Config(app, log_level="warning", server_header=False, lifespan="off", timeout_keep_alive=30)
    uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"expected a port from 0 to 65535, found {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise OSError(
            f"expected to listen at {host}:{port}, found {error.strerror or error}; choose another --port, or 0 for a "
            "free one"
        ) from error


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _print_usage(hub: LocalHub, address: str, made_token: str | None, insecure_writes: bool) -> None:
    print(f"{hub.path} at {address}")
    print(f"  clients:  export HF_ENDPOINT={address} HF_HUB_OFFLINE=0")
    if made_token:
        print(f"  to write: export HF_TOKEN={made_token}")
    elif insecure_writes:
        print("  anybody who reaches this address can write, without a token")
    print("  stop with Ctrl-C", flush=True)


__all__ = ["is_loopback", "listen", "serve"]
