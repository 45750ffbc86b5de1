"""Runs requests on the model: at once when it is free, together when it is not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from platform_core.serving.batching import BatchLimits, Waiting, form, retry_after_seconds
from trainmaster.serving.contract import Runtime

log = logging.getLogger(__name__)
_END = object()


class QueueFull(Exception):
    """As many requests wait as may; `retry_after` in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue of this replica is full; try again in {retry_after} s")
        self.retry_after = retry_after


class DeadlinePassed(Exception):
    """The request waited for longer than its caller does."""


class ModelError(Exception):
    """The model raised; the message says what."""


@dataclass(slots=True)
class _Request:
    waiting: Waiting
    rows: Sequence[Any]
    answer: asyncio.Future[Sequence[Any]]


@dataclass(slots=True)
class _Stream:
    parts: Iterator[str]
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    left: bool = False


@dataclass(slots=True)
class Statistics:
    requests: int = 0
    batches: int = 0
    rows: int = 0
    refused: int = 0
    expired: int = 0
    errors: int = 0
    batch_ms: float = 0.0  # smoothed


@dataclass(frozen=True, slots=True)
class _Outcome:
    outputs: list[Sequence[Any] | Exception]
    parts: list[Any]
    took_ms: float


class Engine:
    """One model thread; everything else is on the event loop, and nothing on it blocks."""

    def __init__(self, runtime: Runtime, limits: BatchLimits) -> None:
        self.runtime, self.limits, self.statistics = runtime, limits, Statistics()
        self._waiting: dict[int, _Request] = {}
        self._streams: list[_Stream] = []
        self._next, self._busy = 0, False
        self._thread = ThreadPoolExecutor(1, "model")

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not self._busy

    async def predict(
        self, rows: Sequence[Any], *, priority: int = 0, deadline_ms: int | None = None
    ) -> Sequence[Any]:
        """The outputs of prepared rows. Cancelled while it waits, it leaves the queue and costs the model nothing."""
        self._refuse_if_full()
        waiting = self._entry(rows, priority, deadline_ms)
        request = _Request(waiting, rows, asyncio.get_running_loop().create_future())
        self._waiting[waiting.id] = request
        self.statistics.requests += 1
        self._go_on()
        try:
            return await request.answer
        finally:
            self._waiting.pop(waiting.id, None)

    async def stream(self, row: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The parts of a text. Closed early, the model stops at its next part."""
        self._refuse_if_full()
        stream = _Stream(self.runtime.stream(row))
        self._streams.append(stream)
        self.statistics.requests += 1
        self._go_on()
        try:
            while (part := await stream.queue.get()) is not _END:
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            stream.left = True

    def close(self) -> None:
        self._thread.submit(self.runtime.close)
        self._thread.shutdown(wait=True)

    def _refuse_if_full(self) -> None:
        waiting = len(self._waiting) + len(self._streams)
        retry_after = retry_after_seconds(waiting, self.limits, self.statistics.batch_ms)
        if retry_after is not None:
            self.statistics.refused += 1
            raise QueueFull(retry_after)

    def _entry(self, rows: Sequence[Any], priority: int, deadline_ms: int | None) -> Waiting:
        self._next += 1
        runtime = self.runtime
        try:
            shapes = {runtime.shape_of(row) for row in rows}
            tokens = max(map(runtime.tokens_of, rows)) if self.limits.max_tokens else 0
        except Exception as error:
            raise ModelError(f"{type(error).__name__}: {error}") from error
        if len(shapes) != 1:
            raise ValueError(f"a request has rows of one shape, not of {len(shapes)}; send them apart")
        return Waiting(self._next, len(rows), tokens, shapes.pop(), priority, deadline_ms)

    def _go_on(self) -> None:
        """Gives the model its next work unless it has some."""
        if self._busy or not (self._waiting or self._streams):
            return
        requests = self._next_batch() if self._waiting else []
        streams = list(self._streams)
        if not requests and not streams:
            return
        self._busy = True
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._run, requests, streams)
        work.add_done_callback(lambda done: self._done(requests, streams, done.result()))

    def _next_batch(self) -> list[_Request]:
        batch = form([one.waiting for one in self._waiting.values()], self.limits, _now_ms())
        for key in batch.expired:
            self.statistics.expired += 1
            late = DeadlinePassed("the request waited for longer than its deadline")
            _settle(self._waiting.pop(key).answer, late)
        return [self._waiting.pop(key) for key in batch.requests]

    def _run(self, requests: list[_Request], streams: list[_Stream]) -> _Outcome:
        """In the model's thread: one batch, and one part of every stream."""
        began = time.perf_counter()
        outputs = self._outputs(requests) if requests else []
        parts = [_next_part(stream) for stream in streams]
        return _Outcome(outputs, parts, (time.perf_counter() - began) * 1000)

    def _outputs(self, requests: Sequence[_Request]) -> list[Sequence[Any] | Exception]:
        """Of each request. A batch that fails is run again one by one, so that a bad request fails alone."""
        rows = [row for one in requests for row in one.rows]
        try:
            outputs = self.runtime.predict(rows)
            if len(outputs) != len(rows):
                raise ValueError(f"the model gave {len(outputs)} outputs for {len(rows)} rows")
        except BaseException as error:  # a model that calls sys.exit() fails its request and ends no server
            if len(requests) > 1:
                return [self._outputs([one])[0] for one in requests]
            log.warning("a request failed: %r", error)
            return [ModelError(f"{type(error).__name__}: {error}")]
        start, answers = 0, []
        for one in requests:
            answers.append(outputs[start : start + len(one.rows)])
            start += len(one.rows)
        return list(answers)

    def _done(self, requests: list[_Request], streams: list[_Stream], outcome: _Outcome) -> None:
        self._busy = False
        for stream, part in zip(streams, outcome.parts, strict=True):
            if part is _END or isinstance(part, Exception):
                self._streams.remove(stream)
            stream.queue.put_nowait(part)
        # The model works on the next batch while this one is answered.
        self._go_on()
        if requests:
            self._answer(requests, outcome)

    def _answer(self, requests: list[_Request], outcome: _Outcome) -> None:
        statistics = self.statistics
        statistics.batches += 1
        statistics.rows += sum(len(one.rows) for one in requests)
        statistics.batch_ms += (outcome.took_ms - statistics.batch_ms) * 0.1
        for one, output in zip(requests, outcome.outputs, strict=True):
            if isinstance(output, Exception):
                statistics.errors += 1
                _settle(one.answer, output)
            elif not one.answer.done():
                one.answer.set_result(output)


def _next_part(stream: _Stream) -> Any:
    try:
        if stream.left:
            with contextlib.suppress(AttributeError):
                stream.parts.close()  # type: ignore[attr-defined]
            return _END
        part = next(stream.parts, _END)
        if part is not _END and not isinstance(part, str):
            raise TypeError(f"the model streamed a {type(part).__name__}; each part must be a text")
        return part
    except BaseException as error:
        log.exception("a stream failed")
        return ModelError(f"{type(error).__name__}: {error}")


def _settle(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
