"""Serve a model over HTTP: an API for programs and a page for people, on this machine only unless told otherwise.

A classifier answers POST /predict, a language model POST /generate; /openapi.json describes the one that there is,
/health and /metrics are for whoever watches over the server. It needs the packages of pip install greffe[serve].
"""

from __future__ import annotations

import argparse
import os
from dataclasses import fields


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from greffe.inference.server.limits import Limits

    parser.add_argument("model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    parser.add_argument("--compare", metavar="MODEL", help="a second one of its kind, to see beside it on the page")
    parser.add_argument(
        "--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only; another needs a token"
    )
    parser.add_argument("--port", type=int, default=8422, help="default: 8422; 0 picks a free one")
    parser.add_argument(
        "--token", metavar="TEXT", help="what clients must send; default: $GREFFE_SERVE_TOKEN, else none is asked for"
    )
    parser.add_argument(
        "--page", action=argparse.BooleanOptionalAction, default=True, help="the page beside the API; default: yes"
    )
    limits = parser.add_argument_group("limits")
    for limit in fields(Limits):
        kind, text = (int if limit.type == "int" else float), limit.metadata["help"]
        limits.add_argument(
            f"--{limit.name}", type=kind, default=limit.default, metavar="N", help=f"{text} Default: {limit.default:,}."
        )


def run(options: argparse.Namespace) -> None:
    from greffe.inference.server.limits import Limits
    from greffe.inference.server.serving import serve

    serve(
        options.model,
        compare=options.compare,
        host=options.host,
        port=options.port,
        token=options.token if options.token is not None else os.environ.get("GREFFE_SERVE_TOKEN"),
        page=options.page,
        limits=Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)}),
    )
