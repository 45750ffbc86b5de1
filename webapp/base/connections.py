"""A connection to the database is held by whoever uses it, and by nobody who waits for somebody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections
from django.http import HttpRequest, HttpResponse


def give_back() -> None:
    """Gives this thread's connections back to the pool, where it is in no transaction."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


@contextmanager
def outside() -> Iterator[None]:
    """Around what waits for a server of somebody else: in no transaction, and with no connection of the pool.

    Raises RuntimeError in a transaction: a silent server would hold its locks.
    """
    for connection in connections.all(initialized_only=True):
        if any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
            raise RuntimeError("a transaction waits for nobody outside; ask before it begins")
    give_back()
    yield


class ConnectionMiddleware:
    """The first of all, so that it is left last: also after a request that was cancelled, whose view goes on in its
    thread to the end and of which Django does not say that it has finished."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            give_back()
