"""Revisions of wanted states: hints over Redis for speed, a look at the database for truth."""

import asyncio
import logging

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from webapp.nodes import queries as clusters
from webapp.nodes import services as cluster_services
from webapp.rpc.database import in_database

log = logging.getLogger(__name__)
LOOK_EVERY_S = 5.0


class Watch:
    """The news that one session waits for."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()  # the node should be sent its wanted state
        self.replaced = asyncio.Event()  # by a newer session of the node
        self.sent = -1  # the newest revision that was


class Watcher:
    """One a gateway, whatever the number of sessions: one subscription and one query every few seconds."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    def begin(self, node_id: str, watch: Watch) -> bool:
        """Makes this the session of the node; returns whether it ended an older one."""
        older = self._watches.get(node_id, watch)
        self._watches[node_id] = watch
        watch.changed.set()
        if older is watch:
            return False
        older.replaced.set()
        return True

    @property
    def sessions(self) -> int:
        return len(self._watches)

    def end(self, node_id: str, watch: Watch) -> None:
        if self._watches.get(node_id) is watch:
            del self._watches[node_id]

    async def run(self) -> None:
        await asyncio.gather(self._hints(), self._truth())

    async def _hints(self) -> None:
        while True:
            try:
                client = redis.asyncio.from_url(settings.REDIS_URL)
                async with client, client.pubsub() as subscription:
                    await subscription.psubscribe("wanted:*")
                    async for message in subscription.listen():
                        if message["type"] == "pmessage":
                            self._wake(message["channel"].decode().removeprefix("wanted:"))
            except (RedisError, OSError) as error:
                log.warning("hints are away, looking every %s s instead: %s", LOOK_EVERY_S, error)
                await asyncio.sleep(1)

    async def _truth(self) -> None:
        while True:
            try:
                await in_database(cluster_services.listening)
                revisions = await in_database(clusters.revisions, list(self._watches))
            except Exception as error:  # the database is away: sessions stay, the next look comes
                log.warning("cannot look at the wanted revisions: %s", error)
                revisions = {}
            for node_id, (revision, revoked) in revisions.items():
                watch = self._watches.get(node_id)
                if watch is not None and (revoked or watch.sent < revision):
                    watch.changed.set()
            await asyncio.sleep(LOOK_EVERY_S)

    def _wake(self, node_id: str) -> None:
        if node_id in self._watches:
            self._watches[node_id].changed.set()
