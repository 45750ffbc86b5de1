"""Placement of gangs: each gets all of its slots or none, any number of gangs in one transaction."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from zlib import crc32

from django.db import transaction
from django.db.models import Q

from platform_core.errors import IllegalTransition
from platform_core.jobs import events
from platform_core.jobs.job import Member as MemberValue
from platform_core.jobs.recovery import goes_on_from
from webapp.base.identity import new_id
from webapp.base.rows import update_each
from webapp.jobs import traces, transitions
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.transitions import Batch
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.nodes.queries import Rendezvous
from webapp.quotas import services as quotas
from webapp.quotas.services import Holding

Seat = tuple[str, int, tuple[int, ...]]  # node id, node rank, slot indices
Address = tuple[str, int]  # address, port
log = logging.getLogger(__name__)
NODES_LOGGED = 8
_PORT_RESTS_MS = 600_000  # a port that was given longer ago may be given again at once

# What belongs to one attempt or to the wait before it, as it is when an attempt begins.
_AFRESH = {
    **transitions.NO_WAIT, "first_step": None, "first_step_ms": None, "utilisation": None, "idle_since_ms": None,
    "idle_told": False, "resize_to": 0, "room_on": [], "room_until_ms": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placing:
    """A gang and its seats, the first rank's first."""

    job_id: str
    seats: tuple[Seat, ...]
    reason: str


def place(placings: Sequence[Placing], at_ms: int) -> frozenset[str]:
    """Starts an attempt of each of these pending jobs. Returns the jobs that started; the others changed meanwhile."""
    with transaction.atomic():
        batch = Batch(placing.job_id for placing in placings)
        gangs = _advanced(batch, placings, at_ms)
        addresses = _rendezvous(
            {attempt_id: placing.seats[0][0] for attempt_id, placing in gangs.items()}, at_ms
        )
        seats = {
            attempt_id: [(node, slots) for node, _, slots in gangs[attempt_id].seats]
            for attempt_id in addresses
        }
        held = clusters.assign_slots(seats)
        gangs = {attempt_id: placing for attempt_id, placing in gangs.items() if attempt_id in held}
        batch.keep_only(placing.job_id for placing in gangs.values())
        if gangs:
            _begin(batch, gangs, addresses, at_ms)
        return frozenset(batch.jobs)


def _advanced(batch: Batch, placings: Sequence[Placing], at_ms: int) -> dict[str, Placing]:
    """Returns new attempt id → placing, for the jobs that are still pending."""
    gangs = {}
    for placing in placings:
        if (job := batch.jobs.get(placing.job_id)) is None:
            continue
        placed = events.Placed(
            at_ms=at_ms,
            actor="scheduler",
            cause=placing.reason,
            attempt=job.row.attempt + 1,
            members=tuple(MemberValue(node, rank, slots) for node, rank, slots in placing.seats),
        )
        try:
            batch.advance(placing.job_id, placed)
        except IllegalTransition:
            continue
        gangs[new_id("att")] = placing
    return gangs


def _begin(batch: Batch, gangs: dict[str, Placing], addresses: dict[str, Address], at_ms: int) -> None:
    jobs = {attempt_id: batch.jobs[placing.job_id] for attempt_id, placing in gangs.items()}
    Attempt.objects.bulk_create(
        Attempt(
            id=attempt_id,
            job=jobs[attempt_id].row,
            number=jobs[attempt_id].value.attempt,
            placed_ms=at_ms,
            master_address=addresses[attempt_id][0],
            master_port=addresses[attempt_id][1],
            resume_checkpoint=goes_on_from(jobs[attempt_id].value),
            placement_reason=placing.reason,
        )
        for attempt_id, placing in gangs.items()
    )
    members = [
        Member(attempt_id=attempt_id, node_id=node, rank=rank, slots=list(slots), phase="assigned")
        for attempt_id, placing in gangs.items()
        for node, rank, slots in placing.seats
    ]
    Member.objects.bulk_create(members)
    quotas.open_entries([_holding(jobs[member.attempt_id].row, member) for member in members], at_ms)
    batch.write()
    update_each(Job, {job.row.id: _AFRESH for job in jobs.values()})
    clusters.touch(member.node_id for member in members)
    traces.placed(list(gangs), at_ms)
    for attempt_id, placing in gangs.items():
        nodes = ", ".join(node for node, _, _ in placing.seats[:NODES_LOGGED])
        more = f" and {len(placing.seats) - NODES_LOGGED} more" if len(placing.seats) > NODES_LOGGED else ""
        log.info("%s is placed as %s on %s%s", placing.job_id, attempt_id, nodes, more)


def _holding(row: Job, member: Member) -> Holding:
    return Holding(
        member.attempt_id, row.id, member.node_id, row.team_id, row.user_id, row.gpu_type, len(member.slots)
    )


def _rendezvous(first: dict[str, str], at_ms: int) -> dict[str, Address]:
    """Attempt id and its first node → the address of its rendezvous; none where the node has no free port.

    Several agents may share a machine, and so its ports.
    """
    places = cluster_queries.rendezvous(first.values())
    taken: dict[str, set[int]] = {place.address: set() for place in places.values()}
    resting: dict[str, set[int]] = {place.address: set() for place in places.values()}
    members = Member.objects.filter(node__address__in=taken, rank=0)
    used = members.filter(Q(attempt__ended_ms=None) | Q(attempt__placed_ms__gte=at_ms - _PORT_RESTS_MS))
    for address, busy, ended_ms in used.values_list(
        "node__address", "attempt__master_port", "attempt__ended_ms"
    ):
        (taken if ended_ms is None else resting)[address].add(busy)
    addresses = {}
    for attempt_id, node_id in first.items():
        place = places[node_id]
        port = _port(place, attempt_id, taken[place.address], resting[place.address])
        if port is not None:
            addresses[attempt_id] = (place.address, port)
            taken[place.address].add(port)
    return addresses


def _port(place: Rendezvous, attempt_id: str, taken: Collection[int], resting: Collection[int]) -> int | None:
    """Of the free ports rather one that has rested. Each attempt looks from another one on: a port that a program
    which the platform does not know of has taken does not meet the next attempt as well."""
    ports = range(place.port_low, place.port_high + 1)
    start = crc32(attempt_id.encode()) % len(ports)
    free = [port for port in (*ports[start:], *ports[:start]) if port not in taken]
    return next((port for port in free if port not in resting), free[0] if free else None)
