"""Which nodes' wanted state has changed: hints over Redis for speed, a look at the database for truth."""

import asyncio
import logging

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from webapp.clusters import queries as clusters
from webapp.clusters import services as cluster_services
from webapp.rpc.database import in_database

log = logging.getLogger(__name__)
LOOK_EVERY_S = 5.0


class Watcher:
    """One a gateway, whatever the number of sessions: one subscription and one query every few seconds."""

    def __init__(self) -> None:
        self._changed: dict[str, asyncio.Event] = {}
        self._sent: dict[str, int] = {}

    def watch(self, node_id: str) -> asyncio.Event:
        """An event that is set whenever the node should be sent its wanted state; the newest session owns it."""
        self._changed[node_id] = asyncio.Event()
        self._changed[node_id].set()
        return self._changed[node_id]

    def sent(self, node_id: str, revision: int) -> None:
        self._sent[node_id] = revision

    def forget(self, node_id: str, changed: asyncio.Event) -> None:
        if self._changed.get(node_id) is changed:
            del self._changed[node_id]
            self._sent.pop(node_id, None)

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
                revisions = await in_database(clusters.revisions, list(self._changed))
            except Exception as error:  # the database is away: sessions stay, the next look comes
                log.warning("cannot look at the wanted revisions: %s", error)
                revisions = {}
            for node_id, (revision, revoked) in revisions.items():
                if revoked or self._sent.get(node_id, -1) < revision:
                    self._wake(node_id)
            await asyncio.sleep(LOOK_EVERY_S)

    def _wake(self, node_id: str) -> None:
        if node_id in self._changed:
            self._changed[node_id].set()
