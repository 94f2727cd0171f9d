"""The API of one model: what it can do, as JSON over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

from greffe.inference import Prediction
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .access import refusal
from .batching import Batcher
from .errors import BusyError, TooLongError, TooSlowError
from .limits import Limits
from .metrics import TYPE, Metrics
from .schema import Schema, describe_api, generate_schema, predict_schema, read_request
from .workers import Worker, describe_kind
from .writing import Writer

_JSON = "application/json"
_RETRY_SECONDS = "1"
# All, so that each path has one answer: others would fall through to the page.
_METHODS = ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"]


def make_app(name: str, workers: list[Worker], limits: Limits, metrics: Metrics, with_token: bool) -> Starlette:
    """The application. The first worker answers; another, which the page shows beside it, is started and stopped."""
    api = _Api(name, workers, limits, metrics, with_token)
    routes = [
        Route("/predict", api.predict, methods=_METHODS),
        Route("/generate", api.generate, methods=_METHODS),
        Route("/openapi.json", api.schema),
        Route("/health", api.health),
        Route("/metrics", api.metrics),
    ]

    @asynccontextmanager
    async def run_workers(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for worker in workers:
                await stack.enter_async_context(worker)
            yield

    handlers: dict[Any, Any] = {
        Exception: _explain_mistake,
        HTTPException: _explain,
        ClientDisconnect: _explain_leaving,
        BusyError: _explain_busy,
        TooLongError: _explain_length,
        TooSlowError: _explain_slow,
    }
    return Starlette(routes=routes, lifespan=run_workers, exception_handlers=handlers)


class _Api:
    def __init__(self, name: str, workers: list[Worker], limits: Limits, metrics: Metrics, with_token: bool):
        self.worker, self._workers, self._metrics = workers[0], workers, metrics
        self._predict_schema, self._generate_schema = predict_schema(limits), generate_schema(limits)
        self._document = describe_api(self._paths(), f"{name}, {describe_kind(self.worker)}", with_token)
        metrics.watch_queue("predict" if isinstance(self.worker, Batcher) else "generate", self.worker.__len__)

    async def predict(self, request: Request) -> Response:
        if not isinstance(self.worker, Batcher):
            raise HTTPException(404, "expected a classifier, found a language model; POST /generate continues a text")
        values = await _read(request, self._predict_schema)
        predictions = await self.worker.predict(values["texts"])
        top_k = values.get("top_k", len(self.worker.classifier.labels.names))
        return JSONResponse({"predictions": [describe_prediction(found, top_k) for found in predictions]})

    async def generate(self, request: Request) -> Response:
        if not isinstance(self.worker, Writer):
            raise HTTPException(404, "expected a language model, found a classifier; POST /predict classifies texts")
        settings = await _read(request, self._generate_schema)
        stream = settings.pop("stream")
        pieces = self.worker.write(**settings)
        # Nothing is sent before the first piece: until then a refusal still has its own status.
        first = await _unless_gone(request.receive, anext(pieces, ""))
        if stream:
            return _EventStream(_events(first, pieces))
        text, timed_out = await _unless_gone(request.receive, _collect(first, pieces))
        return JSONResponse({"text": text, "timed_out": timed_out})

    async def schema(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def health(self, request: Request) -> Response:
        if not all(worker.is_alive for worker in self._workers):
            return refusal(503, "expected the model at work, found that it has stopped; start the server again")
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(self._metrics.render(), media_type=TYPE)

    def _paths(self) -> dict[str, dict[str, Any]]:
        """What this model can be asked for, for the OpenAPI document."""
        status = {"type": "object", "properties": {"status": {"const": "ok"}}}
        paths = {
            "/health": {"method": "get", "summary": "Whether the model is at work", "answers": {_JSON: status}},
            "/metrics": {
                "method": "get",
                "summary": "Counters for Prometheus",
                "answers": {"text/plain": {"type": "string"}},
            },
        }
        if isinstance(self.worker, Batcher):
            predictions = {"type": "array", "items": _prediction_schema(self.worker.classifier.labels.task)}
            paths["/predict"] = {
                "method": "post",
                "summary": "A prediction for each text, in their order",
                "request": self._predict_schema,
                "answers": {_JSON: {"type": "object", "properties": {"predictions": predictions}}},
            }
        else:
            text = {"text": {"type": "string"}, "timed_out": {"type": "boolean"}}
            event = 'data: {"piece": "…"}, again and again, then data: {"text": "…", "timed_out": false}'
            paths["/generate"] = {
                "method": "post",
                "summary": "What the model writes after a prompt",
                "request": self._generate_schema,
                "answers": {
                    _JSON: {"type": "object", "properties": text},
                    "text/event-stream": {"type": "string", "description": event},
                },
            }
        return paths


def describe_prediction(prediction: Prediction, top_k: int) -> dict[str, Any]:
    """A number, or the labels that hold and the probabilities of the most probable ones."""
    if prediction.value is not None:
        return {"value": prediction.value}
    return {"labels": list(prediction.labels), "probabilities": dict(prediction.top(top_k))}


def _prediction_schema(task: str) -> Schema:
    if task == "regression":
        return {"type": "object", "properties": {"value": {"type": "number"}}}
    labels = {"type": "array", "items": {"type": "string"}}
    probabilities = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
    return {"type": "object", "properties": {"labels": labels, "probabilities": probabilities}}


async def _read(request: Request, schema: Schema) -> dict[str, Any]:
    if request.method != "POST":
        raise HTTPException(405, f"expected POST, found {request.method}", {"Allow": "POST"})
    try:
        return read_request(await request.body(), schema)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


# ---- texts that are being written


async def _collect(first: str, pieces: AsyncGenerator[str, None]) -> tuple[str, bool]:
    """The whole text, and whether the time was over before its end."""
    text = [first]
    try:
        async for piece in pieces:
            text.append(piece)
    except TooSlowError:
        return "".join(text), True
    return "".join(text), False


async def _events(first: str, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[dict[str, Any], None]:
    text, timed_out = [first], False
    yield {"piece": first}
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                text.append(piece)
                yield {"piece": piece}
        except TooSlowError:
            timed_out = True
    yield {"text": "".join(text), "timed_out": timed_out}


Result = TypeVar("Result")


async def _unless_gone(receive: Receive, work: Awaitable[Result]) -> Result:
    """The result of work that is cancelled when the client leaves."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_leaving(receive))
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        leaving.cancel()


async def _wait_for_leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _EventStream(Response):
    """Server-sent events, each a line of JSON. A client that leaves closes the iterator at once."""

    def __init__(self, events: AsyncGenerator[dict[str, Any], None]):
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]  # nobody knows it yet
        self.events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with suppress(ClientDisconnect):
            await _unless_gone(receive, self._send_events(send))

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self.events) as events:
            async for event in events:
                line = f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
                await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


# ---- errors: one line of JSON


async def _explain(request: Request, error: HTTPException) -> Response:
    return refusal(error.status_code, error.detail, dict(error.headers or {}))


async def _explain_leaving(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # to nobody, but it is counted


async def _explain_busy(request: Request, error: Exception) -> Response:
    return refusal(429, str(error), {"Retry-After": _RETRY_SECONDS})


async def _explain_length(request: Request, error: Exception) -> Response:
    return refusal(413, str(error))


async def _explain_slow(request: Request, error: Exception) -> Response:
    return refusal(503, str(error), {"Retry-After": _RETRY_SECONDS})


async def _explain_mistake(request: Request, error: Exception) -> Response:
    return refusal(500, "the server made a mistake; its log has the details")


__all__ = ["describe_prediction", "make_app"]
