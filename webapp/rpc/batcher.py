"""Calls of one function on the database, made together: what is asked while one is under way goes into the next."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from webapp.rpc.database import in_database

log = logging.getLogger(__name__)
A = TypeVar("A")
R = TypeVar("R")


class Together(Generic[A, R]):
    """One a gateway. A lone call is made at once; under load one answers hundreds of nodes, `most` at a time.

    `function` answers in the order in which it was asked.
    """

    def __init__(self, function: Callable[[Sequence[A]], Sequence[R]], most: int = 1_000) -> None:
        self._function, self._most = function, most
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._calling: asyncio.Task[None] | None = None

    async def __call__(self, asked: A) -> R:
        """Raises what the function raises for this one."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._calling is None:
            self._calling = asyncio.create_task(self._call())
        return await answer

    async def _call(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                answers = await in_database(self._function, [asked for asked, _ in batch])
            except Exception as error:  # one of them, or the database for a moment: each has its own answer
                log.info("%d calls of %s are made one by one: %s", len(batch), self._function.__name__, error)
                for asked, answer in batch:
                    await self._alone(asked, answer)
            else:
                for (_, answer), found in zip(batch, answers, strict=True):
                    if not answer.done():  # its session may have ended meanwhile
                        answer.set_result(found)
        self._calling = None

    async def _alone(self, asked: A, answer: "asyncio.Future[R]") -> None:
        try:
            (found,) = await in_database(self._function, [asked])
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(found)
