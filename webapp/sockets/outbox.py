"""Hints leave the process in a thread of their own: whoever commits does not wait, and a burst about one subject is
one message. A hint that is lost costs a page nothing but time: it reads the truth at the next one."""

import asyncio
import atexit
import logging
import os
import threading
from typing import Any

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from webapp.base.identity import now_ms
from webapp.sockets.subjects import changed, group

log = logging.getLogger(__name__)
LAST_WORDS_S = 2.0  # how long a process that ends waits for what it has still to say


class Outbox:
    def __init__(self) -> None:
        self._pending: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._busy = False
        self._thread: threading.Thread | None = None

    def put(self, subject: str, data: dict[str, Any]) -> None:
        with self._changed:
            merge(self._pending.setdefault(subject, {}), data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is on its way. False when it took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._busy, seconds)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()  # one for good: the layer keeps its connection by loop
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._pending))
                batch, self._pending, self._busy = self._pending, {}, True
            loop.run_until_complete(_send(batch))


async def _send(batch: dict[str, dict[str, Any]]) -> None:
    layer, at_ms = get_channel_layer(), now_ms()
    for subject, data in batch.items():
        try:
            # Before the message: a page that joins in between finds one of the two. It may block: the thread is ours.
            changed(subject, at_ms)
            await layer.group_send(group(subject), {"type": "live.changed", "subject": subject, "data": data})
        except (RedisError, OSError) as error:
            log.warning("live hint for %s was lost: %s", subject, error)


def merge(into: dict[str, Any], data: dict[str, Any]) -> None:
    """Later values win; lists (log lines, metric points) are joined."""
    for key, value in data.items():
        if isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = into[key] + value
        else:
            into[key] = value


_outbox = Outbox()


def _afresh() -> None:
    """A forked child has none of its parent's threads; what the parent has to say, the parent says."""
    global _outbox
    _outbox = Outbox()


os.register_at_fork(after_in_child=_afresh)
atexit.register(lambda: flush(LAST_WORDS_S))


def flush(seconds: float) -> bool:
    return _outbox.flush(seconds)


def put(subject: str, data: dict[str, Any]) -> None:
    _outbox.put(subject, data)
