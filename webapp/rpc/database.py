"""The gateway's way to the database: a few threads, so that agents do not wait for one another."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async

P = ParamSpec("P")
R = TypeVar("R")
THREADS = 8
_THREADS = ThreadPoolExecutor(THREADS, thread_name_prefix="gateway-database")


async def in_database(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    call = database_sync_to_async(function, thread_sensitive=False, executor=_THREADS)
    return await call(*args, **kwargs)
