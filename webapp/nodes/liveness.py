"""Who was heard when, in Redis: a heartbeat costs one round trip there and nothing in the database.

Keys: `cluster:seen` (sorted set, node → ms), `cluster:acknowledged` (hash, node → the silence in ms after which it is
lost, and a token that changes with each heartbeat; written before it is acknowledged, see silence.py),
`cluster:telemetry:<node>` (JSON, expires), `cluster:exposition:<node>` (the same for Prometheus, see exposition.py),
`cluster:full` and `cluster:ailing` (sets of nodes whose disk is full, and with symptoms of device health),
`cluster:ear` (since when, and when last, a gateway was there to hear anybody), `cluster:holders:<manifest>` (sorted
set, node → ms). Channel `wanted:<node>` carries hints to the node's gateway.
"""

import asyncio
import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings

from platform_core.cluster.device_health import is_symptom
from platform_core.cluster.health import is_disk_full
from platform_core.node.description import SlotTelemetry, Telemetry
from webapp.base.identity import now_ms
from webapp.nodes import exposition

SEEN = "cluster:seen"
ACKNOWLEDGED = "cluster:acknowledged"
EAR = "cluster:ear"
FULL = "cluster:full"
AILING = "cluster:ailing"
UPLINK = "cluster:uplink"
TELEMETRY_SECONDS = 120  # older numbers say nothing about now
UPLINK_COUNTS_MS = 600_000
EAR_GAP_MS = 15_000  # a gateway that did not say it listens for this long was away


def channel(node_id: str) -> str:
    return f"wanted:{node_id}"


def _holders_key(manifest: str) -> str:
    return f"cluster:holders:{manifest}"


def _telemetry_key(node_id: str) -> str:
    return f"cluster:telemetry:{node_id}"


def _exposition_key(node_id: str) -> str:
    return f"cluster:exposition:{node_id}"


@cache
def client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL)


class Recorder:
    """Writes heartbeats as they come. What arrives while one write is under way goes together into the next.

    One for each event loop; not for threads.
    """

    def __init__(self) -> None:
        self._redis = redis.asyncio.from_url(settings.REDIS_URL)
        self._waiting: dict[str, Telemetry] = {}
        self._next: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def heard(self, node_id: str, telemetry: Telemetry) -> None:
        """Returns when it is kept; raises what Redis raised."""
        self._waiting[node_id] = telemetry
        if self._next is None:
            self._next = asyncio.create_task(self._write())
        # Shielded: a session that ends must not cancel the write of all the others.
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        async with self._writing:
            beats, self._waiting, self._next = self._waiting, {}, None
            pipe = self._redis.pipeline(transaction=False)
            moment = now_ms()
            _record(pipe, beats, moment)
            for node_id, telemetry in beats.items():
                _keep(pipe, node_id, telemetry)
            _note_disks(pipe, beats)
            _note_holders(pipe, beats, moment)
            await pipe.execute()


_RECORDERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Recorder] = WeakKeyDictionary()


def recorder() -> Recorder:
    loop = asyncio.get_running_loop()
    if loop not in _RECORDERS:
        _RECORDERS[loop] = Recorder()
    return _RECORDERS[loop]


def saw(node_id: str, moment_ms: int) -> None:
    pipe = client().pipeline(transaction=False)
    _record(pipe, [node_id], moment_ms)
    pipe.execute()


def _record(pipe: Any, node_ids: Iterable[str], moment_ms: int) -> None:
    """Before what they said is acknowledged."""
    record = f"{settings.LOST_AFTER_SECONDS * 1000} {secrets.token_hex(8)}"
    nodes = list(node_ids)
    pipe.zadd(SEEN, dict.fromkeys(nodes, moment_ms))
    pipe.hset(ACKNOWLEDGED, mapping=dict.fromkeys(nodes, record))


def heard(node_id: str, telemetry: Telemetry, moment_ms: int) -> None:
    """One heartbeat, for those who have no event loop."""
    pipe = client().pipeline(transaction=False)
    _record(pipe, [node_id], moment_ms)
    _keep(pipe, node_id, telemetry)
    _note_disks(pipe, {node_id: telemetry})
    _note_holders(pipe, {node_id: telemetry}, moment_ms)
    pipe.execute()


def _keep(pipe: Any, node_id: str, telemetry: Telemetry) -> None:
    pipe.set(_telemetry_key(node_id), _to_json(telemetry), ex=TELEMETRY_SECONDS)
    pipe.set(_exposition_key(node_id), exposition.kept(telemetry), ex=TELEMETRY_SECONDS)


def _note_disks(pipe: Any, beats: Mapping[str, Telemetry]) -> None:
    """Commands for all: the scheduler asks for the full and the ailing alone, not for the telemetry of every node."""
    full = [node_id for node_id, telemetry in beats.items() if is_disk_full(telemetry.disk_free_bytes)]
    roomy = [node_id for node_id in beats if node_id not in full]
    if full:
        pipe.sadd(FULL, *full)
    if roomy:
        pipe.srem(FULL, *roomy)
    ailing = [node_id for node_id, telemetry in beats.items() if _is_ailing(telemetry)]
    well = [node_id for node_id in beats if node_id not in ailing]
    if ailing:
        pipe.sadd(AILING, *ailing)
    if well:
        pipe.srem(AILING, *well)


def _note_holders(pipe: Any, beats: Mapping[str, Telemetry], moment_ms: int) -> None:
    """By dataset: the scheduler asks who holds those of the jobs that wait."""
    nodes_of: dict[str, dict[str, int]] = {}
    for node_id, telemetry in beats.items():
        for manifest in telemetry.holds:
            nodes_of.setdefault(manifest, {})[node_id] = moment_ms
    for manifest, nodes in nodes_of.items():
        pipe.zadd(_holders_key(manifest), nodes)
        pipe.expire(_holders_key(manifest), TELEMETRY_SECONDS)


def holders(manifests: Collection[str], moment_ms: int) -> dict[str, tuple[str, ...]]:
    """Dataset → the nodes that hold it, as they said within two minutes."""
    pipe = client().pipeline(transaction=False)
    for manifest in manifests:
        pipe.zrangebyscore(_holders_key(manifest), moment_ms - TELEMETRY_SECONDS * 1000, "+inf")
    answers: Any = pipe.execute() if manifests else []
    return {
        manifest: tuple(sorted(name.decode() for name in names))
        for manifest, names in zip(manifests, answers, strict=True)
    }


def _is_ailing(telemetry: Telemetry) -> bool:
    return any(
        is_symptom(readings) for readings in (telemetry.readings, *(s.readings for s in telemetry.slots))
    )


def ailing() -> frozenset[str]:
    """Nodes whose last heartbeat had a reading that a rule of device health is about."""
    names: Any = client().smembers(AILING)
    return frozenset(name.decode() for name in names)


def full_disks() -> frozenset[str]:
    names: Any = client().smembers(FULL)
    return frozenset(name.decode() for name in names)


def last_seen() -> dict[str, int]:
    pairs: Any = client().zrange(SEEN, 0, -1, withscores=True)
    return {name.decode(): int(at_ms) for name, at_ms in pairs}


def seen(node_ids: Sequence[str]) -> dict[str, int]:
    if not node_ids:
        return {}
    scores = client().zmscore(SEEN, list(node_ids))
    return {node: int(at_ms) for node, at_ms in zip(node_ids, scores, strict=True) if at_ms is not None}


def telemetry(node_ids: Sequence[str]) -> dict[str, Telemetry]:
    if not node_ids:
        return {}
    texts: Any = client().mget([_telemetry_key(node) for node in node_ids])
    return {node: _from_json(text) for node, text in zip(node_ids, texts, strict=True) if text}


def expositions(node_ids: Sequence[str]) -> list[str | None]:
    """In this order; None of a node that was not heard within two minutes."""
    texts: Any = client().mget([_exposition_key(node) for node in node_ids]) if node_ids else []
    return [None if text is None else text.decode() for text in texts]


def listening(moment_ms: int) -> None:
    """Said by every gateway every few seconds. After a gap, silence counts from now: nobody was heard."""
    last = client().hget(EAR, "last")
    values: Any = {"last": moment_ms}
    if last is None or moment_ms - int(last) > EAR_GAP_MS:
        values["since"] = moment_ms
    client().hset(EAR, mapping=values)  # both at once: a sweep in between would count the silence of the gap


def last_listening() -> int | None:
    last = client().hget(EAR, "last")
    return None if last is None else int(last)


def sent(node_id: str, newest_ms: int, moment_ms: int) -> None:
    """Keeps when the newest of what a node has just sent was measured, and when that arrived."""
    client().hset(UPLINK, node_id, f"{newest_ms} {moment_ms}")


def uplink_lags() -> dict[str, int]:
    """Node → how old its newest values were when they arrived; a lag of more than ten minutes ago is left out."""
    oldest = now_ms() - UPLINK_COUNTS_MS
    pairs: Any = client().hgetall(UPLINK)
    moments = {node.decode(): [int(number) for number in text.split()] for node, text in pairs.items()}
    return {
        node: max(0, arrived - newest) for node, (newest, arrived) in moments.items() if arrived >= oldest
    }


def hint(node_ids: Iterable[str]) -> None:
    pipe = client().pipeline(transaction=False)
    for node_id in node_ids:
        pipe.publish(channel(node_id), "")
    pipe.execute()


def _to_json(telemetry: Telemetry) -> str:
    return json.dumps(asdict(telemetry), separators=(",", ":"))


def _from_json(text: bytes) -> Telemetry:
    values: dict[str, Any] = json.loads(text)
    slots = tuple(SlotTelemetry(**slot) for slot in values["slots"])
    return Telemetry(**{**values, "slots": slots, "holds": tuple(values.get("holds", ()))})
