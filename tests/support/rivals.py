"""Two transactions at once: the second waits for the rows that the first has locked, and finds what it left."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from platform_core.errors import TrainmasterError

PATIENCE = 10
STANDS_STILL = 0.3  # seconds in which whoever is not held back would long have ended


@contextmanager
def rival(work: Callable[[], object], outcome: list[str]) -> Iterator[Callable[[], None]]:
    """The body is a transaction. It calls what it is given when it holds its locks: then `work` begins in another one,
    and must wait. When the body has committed, `outcome` has "done", or the code of the error that refused it.
    """
    begun, ended = threading.Event(), threading.Event()

    def second() -> None:
        try:
            begun.wait(PATIENCE)
            with transaction.atomic():
                work()
            outcome.append("done")
        except TrainmasterError as error:
            outcome.append(error.code)
        finally:
            connection.close()
            ended.set()

    def begins() -> None:
        begun.set()
        assert not ended.wait(STANDS_STILL), "it was not held back"

    thread = threading.Thread(target=second)
    thread.start()
    try:
        with transaction.atomic():
            yield begins
    finally:
        begun.set()
        thread.join(PATIENCE)
