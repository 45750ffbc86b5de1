"""Sends spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names; without one they cost a comparison."""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from django.conf import settings
from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.spans import Span, export_request
from trainmaster import gate
from trainmaster.outbound import Client, NoAnswer

log = logging.getLogger(__name__)
MOST_WAITING = 4096
BATCH = 512
GATHER_SECONDS = 1.0
TRIES = 3
PATIENCE_SECONDS = 5.0  # for one request, and for what is left when the process ends


def enabled() -> bool:
    return bool(settings.OTLP_TRACES_ENDPOINT)


def export(make: Callable[[], Iterable[Span]]) -> None:
    """After the commit, if there is a transaction. `make` is only called where spans are sent."""
    if enabled():
        transaction.on_commit(lambda: _exporter(os.getpid()).add(make()), robust=True)


def export_now(span: Span) -> None:
    if enabled():
        _exporter(os.getpid()).add([span])


@cache
def _exporter(_pid: int) -> Exporter:
    """One a process: threads do not survive a fork."""
    return Exporter(settings.OTLP_TRACES_ENDPOINT, settings.OTLP_HEADERS)


class Exporter:
    """Keeps a bounded number of spans and sends them in batches from its own thread.

    `add` never waits and never raises: spans that find no place, and those that the collector refuses three times, are
    dropped, counted and mentioned in the log.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        self._endpoint, self._headers = endpoint, dict(headers)
        self._waiting: queue.Queue[Span] = queue.Queue(MOST_WAITING)
        self._leaving = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def add(self, spans: Iterable[Span]) -> None:
        for span in spans:
            try:
                self._waiting.put_nowait(span)
            except queue.Full:
                self.dropped += 1

    def close(self) -> None:
        """Sends what is left, for some seconds at most."""
        self._leaving.set()
        self._thread.join(PATIENCE_SECONDS)
        atexit.unregister(self.close)

    def _run(self) -> None:
        headers = {**self._headers, "Content-Type": "application/json"}
        client = Client(gate.anywhere, deadline=PATIENCE_SECONDS, silence=PATIENCE_SECONDS)
        while not self._leaving.is_set() or not self._waiting.empty():
            if batch := self._gather():
                self._send(client, headers, batch)
        client.close()

    def _gather(self) -> list[Span]:
        batch: list[Span] = []
        until = time.monotonic() + GATHER_SECONDS
        while len(batch) < BATCH:
            left = 0.0 if self._leaving.is_set() else until - time.monotonic()
            try:
                batch.append(self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait())
            except queue.Empty:
                break
        return batch

    def _send(self, client: Client, headers: Mapping[str, str], batch: list[Span]) -> None:
        trouble = ""
        for attempt in range(TRIES):
            try:
                content = json.dumps(export_request(batch)).encode()
                answer = client.request("POST", self._endpoint, headers, content)
            except (NoAnswer, TrainmasterError) as error:
                trouble = str(error)
            else:
                if answer.is_success:
                    return
                trouble = f"it answered {answer.status}"
                if answer.status < 500 and answer.status != 429:
                    break
            if self._leaving.wait(2**attempt):
                break
        self.dropped += len(batch)
        log.warning(
            "%d spans are dropped, %d in all: the collector: %.200s", len(batch), self.dropped, trouble
        )
