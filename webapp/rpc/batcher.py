"""Batches calls of one function on the database: what arrives while one call runs goes into the next."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from webapp.rpc.database import in_database

log = logging.getLogger(__name__)
A = TypeVar("A")
R = TypeVar("R")


class Batcher(Generic[A, R]):
    """One a gateway. A lone request is passed on at once; under load one call answers hundreds, `most` at a time.

    `function` returns its answers in the order of the requests.
    """

    def __init__(self, function: Callable[[Sequence[A]], Sequence[R]], most: int = 1_000) -> None:
        self._function, self._most = function, most
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._calling: asyncio.Task[None] | None = None

    async def __call__(self, request: A) -> R:
        """Raises what the function raises for this request."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._calling is None:
            self._calling = asyncio.create_task(self._call())
        return await answer

    async def _call(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                answers = await in_database(self._function, [request for request, _ in batch])
            except Exception as error:  # one of them, or the database for a moment: each has its own answer
                log.info("%d calls of %s are made one by one: %s", len(batch), self._function.__name__, error)
                for request, answer in batch:
                    await self._alone(request, answer)
            else:
                for (_, answer), result in zip(batch, answers, strict=True):
                    if not answer.done():  # its session may have ended meanwhile
                        answer.set_result(result)
        self._calling = None

    async def _alone(self, request: A, answer: "asyncio.Future[R]") -> None:
        try:
            (result,) = await in_database(self._function, [request])
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)
