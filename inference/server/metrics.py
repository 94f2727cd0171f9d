"""What the server has done, in the text format that Prometheus reads."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How many observations were at most each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]):
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        below = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {below}'
        around = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{around} {self.total:.6f}"
        yield f"{name}_count{around} {below}"


class Metrics:
    """The counters of one server. Endpoints are the server's own names: a client cannot add any."""

    def __init__(self) -> None:
        self._lock = Lock()  # the model's threads count too
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._texts: Counter[str] = Counter()
        self._batches = Histogram(SIZES)
        self._queues: dict[str, Callable[[], int]] = {}

    def watch_queue(self, name: str, length: Callable[[], int]) -> None:
        self._queues[name] = length

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[endpoint, status] += 1
            self._seconds.setdefault(endpoint, Histogram(SECONDS)).observe(seconds)

    def count_texts(self, kind: str, number: int) -> None:
        with self._lock:
            self._texts[kind] += number

    def count_batch(self, size: int) -> None:
        with self._lock:
            self._batches.observe(size)

    def render(self) -> str:
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("greffe_requests_total", "counter", "Requests that were answered, errors by their status.")
        for (endpoint, status), number in sorted(self._requests.items()):
            yield f'greffe_requests_total{{endpoint="{endpoint}",status="{status}"}} {number}'
        yield from _head("greffe_errors_total", "counter", "Requests that were answered with a status of 400 or more.")
        for endpoint in sorted({endpoint for endpoint, _ in self._requests}):
            errors = sum(n for (name, status), n in self._requests.items() if name == endpoint and status >= 400)
            yield f'greffe_errors_total{{endpoint="{endpoint}"}} {errors}'
        yield from _head("greffe_request_seconds", "histogram", "Time from the request's headers to its last byte.")
        for endpoint, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("greffe_request_seconds", f'endpoint="{endpoint}"')
        yield from _head("greffe_texts_total", "counter", "Texts that the model has read or written.")
        for kind, number in sorted(self._texts.items()):
            yield f'greffe_texts_total{{kind="{kind}"}} {number}'
        yield from _head("greffe_queue_length", "gauge", "Texts that wait for the model.")
        for name, length in sorted(self._queues.items()):
            yield f'greffe_queue_length{{queue="{name}"}} {length()}'
        yield from _head("greffe_batch_size", "histogram", "Texts that went through the model together.")
        yield from self._batches.lines("greffe_batch_size")


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


__all__ = ["TYPE", "Histogram", "Metrics"]
