"""The gateway's way to the database: a few threads, so that agents do not wait for one another."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async

from platform_core.errors import TrainmasterError
from webapp.base.traffic import COUNTER

P = ParamSpec("P")
R = TypeVar("R")
THREADS = 8
_THREADS = ThreadPoolExecutor(THREADS, thread_name_prefix="gateway-database")


async def in_database(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    call = database_sync_to_async(_counted(function), thread_sensitive=False, executor=_THREADS)
    return await call(*args, **kwargs)


def _counted(function: Callable[P, R]) -> Callable[P, R]:
    """Counts a call as a request of the gateway, with the time for which it waited for a thread."""
    begun = time.perf_counter()

    @wraps(function)
    def counted(*args: P.args, **kwargs: P.kwargs) -> R:
        outcome = "5xx"
        try:
            answer = function(*args, **kwargs)
            outcome = "2xx"
            return answer
        except TrainmasterError:
            outcome = "4xx"
            raise
        finally:
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.lstrip('_')}"
            COUNTER.add("grpc", name, outcome, time.perf_counter() - begun)

    return counted
