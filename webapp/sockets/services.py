"""Hints to whoever watches a subject."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from webapp.sockets import outbox


def publish(subject: str, data: Mapping[str, Any] | None = None) -> None:
    """Tell the watchers of `subject`, after the commit, that it changed; `data` are small live values for the page.

    A hint: a page that misses it reads the truth at its next one. So a dead channel layer costs nothing but a log line.
    """
    transaction.on_commit(lambda: outbox.put(subject, dict(data or {})))
