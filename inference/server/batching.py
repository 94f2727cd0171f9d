"""Texts of requests that arrive together go through the model together, in a thread of its own.

While the model works on one batch the next gathers, so that a busy server makes full batches without waiting; a text
that finds the model idle waits a few milliseconds for company. A text gets what it would get alone: padding is masked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import anyio
from greffe.inference import Classifier, Explanation, Prediction
from greffe.inference.explanation import explain

from .errors import BusyError, TooSlowError
from .limits import Limits
from .metrics import Metrics

# Batches that are cut out of the texts that wait: sorted by length, each holds texts of about one length.
_BATCHES_AT_ONCE = 4
# Explanations that may be waited for. Each takes as long as hundreds of texts: a longer queue would only time out.
MAX_EXPLANATIONS = 16


@dataclass(eq=False)
class _Job:
    text: str
    answer: asyncio.Future[Prediction]


class Batcher:
    """Predictions of one classifier, for whoever asks at the same time. To be made and used in one event loop."""

    def __init__(self, classifier: Classifier, limits: Limits, metrics: Metrics):
        self.classifier, self.limits, self.metrics = classifier, limits, metrics
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        # A thread of their own: no batch waits for an explanation.
        self._explaining = ThreadPoolExecutor(1, thread_name_prefix="explanations")
        self._explanations = 0
        self._gathering: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Texts that wait, those in the model not counted."""
        return self._jobs.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether texts are still taken to the model."""
        return self._gathering is not None and not self._gathering.done()

    async def __aenter__(self) -> Batcher:
        self._gathering = asyncio.create_task(self._gather())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
        for thread in (self._thread, self._explaining):
            thread.shutdown(wait=True, cancel_futures=True)

    async def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """A prediction for each text, in their order; all of them or an error."""
        if len(self) + len(texts) > self.limits.max_queue:
            raise BusyError(
                f"expected at most {self.limits.max_queue:,} texts to wait for the model, found {len(self):,} before "
                f"the {len(texts):,} of this request; send it again later"
            )
        loop = asyncio.get_running_loop()
        jobs = [_Job(text, loop.create_future()) for text in texts]
        for job in jobs:
            self._jobs.put_nowait(job)
        try:
            with anyio.fail_after(self.limits.timeout):
                return await asyncio.gather(*(job.answer for job in jobs))
        except TimeoutError:
            raise TooSlowError(
                f"expected an answer within {self.limits.timeout:g} s, found the model still at work; send fewer or "
                "shorter texts, or send them again later"
            ) from None
        finally:  # who has left, or has got an error, is waited for no longer
            for job in jobs:
                job.answer.cancel()

    async def explain(self, text: str) -> Explanation:
        """Why the model says of a text what it says."""
        if self._explanations >= MAX_EXPLANATIONS:
            raise BusyError(f"expected at most {MAX_EXPLANATIONS} explanations at once, found as many; try again later")
        self._explanations += 1
        try:
            with anyio.fail_after(self.limits.timeout):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._explaining, explain, self.classifier, text)
        except TimeoutError:
            raise TooSlowError(
                f"expected an explanation within {self.limits.timeout:g} s, found the model still at work; try a "
                "shorter text, or try again later"
            ) from None
        finally:
            self._explanations -= 1

    async def _gather(self) -> None:
        while True:
            jobs = [await self._jobs.get()]
            if len(self) + 1 < self.limits.max_batch:
                await asyncio.sleep(self.limits.batch_milliseconds / 1000)
            while len(jobs) < self.limits.max_batch * _BATCHES_AT_ONCE and not self._jobs.empty():
                jobs.append(self._jobs.get_nowait())
            jobs.sort(key=lambda job: len(job.text))
            for start in range(0, len(jobs), self.limits.max_batch):
                await self._answer(jobs[start : start + self.limits.max_batch])

    async def _answer(self, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if not job.answer.done()]  # the others have been given up
        if not jobs:
            return
        loop, texts = asyncio.get_running_loop(), [job.text for job in jobs]
        try:
            predictions = await loop.run_in_executor(self._thread, self.classifier.predict, texts, len(jobs))
        except Exception as error:
            if len(jobs) > 1:  # one text may have spoilt it for the others
                for job in jobs:
                    await self._answer([job])
            elif not jobs[0].answer.done():
                jobs[0].answer.set_exception(error)
            return
        self.metrics.count_batch(len(jobs))
        self.metrics.count_texts("read", len(jobs))
        for job, prediction in zip(jobs, predictions, strict=True):
            if not job.answer.done():
                job.answer.set_result(prediction)


__all__ = ["Batcher"]
