"""What agents say, written together: what comes while one write is under way goes into the next."""

import asyncio
import logging

from webapp.rpc import observing
from webapp.rpc.database import in_database
from webapp.rpc.observing import Heard

log = logging.getLogger(__name__)


class Inbox:
    """One a gateway. A lone word is written at once; under load a write takes what hundreds of nodes have said."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Heard, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def heard(self, heard: Heard) -> None:
        """Returns when it is kept; raises what keeping it raised."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((heard, kept))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await kept

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await in_database(observing.observe, [heard for heard, _ in batch])
            except Exception as error:  # one of them, or the database for a moment: each has its own answer
                log.info("%d words of agents are written one by one: %s", len(batch), error)
                for heard, kept in batch:
                    await _alone(heard, kept)
            else:
                for _, kept in batch:
                    _settle(kept)
        self._writing = None


async def _alone(heard: Heard, kept: "asyncio.Future[None]") -> None:
    try:
        await in_database(observing.observe, [heard])
    except Exception as error:
        _settle(kept, error)
    else:
        _settle(kept)


def _settle(kept: "asyncio.Future[None]", error: Exception | None = None) -> None:
    """Its session may have ended meanwhile."""
    if kept.done():
        return
    if error is None:
        kept.set_result(None)
    else:
        kept.set_exception(error)
