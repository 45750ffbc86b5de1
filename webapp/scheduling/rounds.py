"""Stored rounds: each round that changed something can be replayed and gives the same decision."""

import zlib
from dataclasses import dataclass

from pydantic import TypeAdapter

from platform_core.cluster.snapshot import Snapshot
from platform_core.scheduling.decisions import Plan
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from webapp.scheduling.models import Round

KEPT_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Known:
    snapshot: Snapshot
    policy: Policy


_KNOWN = TypeAdapter(Known)
_PLAN = TypeAdapter(Plan)


def keep(known: Known, decided: Plan, fencing: int, took_ms: int) -> None:
    """Store a round that starts or stops a job; rounds older than a day are deleted."""
    if not decided.placements and not decided.preemptions:
        return
    now = known.snapshot.now_ms
    Round.objects.create(
        at_ms=now,
        fencing=fencing,
        took_ms=took_ms,
        pending=len(known.snapshot.pending),
        started=len(decided.placements),
        preempted=len(decided.preemptions),
        known=zlib.compress(_KNOWN.dump_json(known), 1),
        decided=zlib.compress(_PLAN.dump_json(decided), 1),
    )
    Round.objects.filter(at_ms__lt=now - KEPT_MS).delete()


@dataclass(frozen=True, slots=True)
class Replay:
    """`then` and `now` are the plans as canonical JSON."""

    known: Known
    then: bytes
    now: bytes

    @property
    def same(self) -> bool:
        return self.then == self.now


def replay(row: Round) -> Replay:
    """Repeat the decision from the stored input with the current engine."""
    known = _KNOWN.validate_json(zlib.decompress(row.known))
    again = plan(known.snapshot, known.policy)
    return Replay(known, zlib.decompress(row.decided), _PLAN.dump_json(again))


def as_json(known: Known) -> bytes:
    return _KNOWN.dump_json(known, indent=1)
