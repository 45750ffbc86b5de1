"""Gangs get their slots: each all of them or none, any number of gangs in one transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import transaction

from platform_core.errors import IllegalTransition
from platform_core.jobs import events
from platform_core.jobs.job import Member as MemberValue
from platform_core.jobs.recovery import goes_on_from
from webapp.base.identity import new_id
from webapp.base.rows import update_each
from webapp.jobs import transitions
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.transitions import Batch
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.nodes.queries import Rendezvous
from webapp.quotas import services as quotas
from webapp.quotas.services import Holding

Seat = tuple[str, int, tuple[int, ...]]  # node id, node rank, slot indices
Meeting = tuple[str, int]  # address, port
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
    """Start a new attempt of each of these waiting jobs. Which have started: of the others something has changed."""
    with transaction.atomic():
        batch = Batch(placing.job_id for placing in placings)
        gangs = _advanced(batch, placings, at_ms)
        meetings = _meetings({each: placing.seats[0][0] for each, placing in gangs.items()}, at_ms)
        seats = {each: [(node, slots) for node, _, slots in gangs[each].seats] for each in meetings}
        held = clusters.assign_slots(seats)
        gangs = {each: placing for each, placing in gangs.items() if each in held}
        batch.keep_only(placing.job_id for placing in gangs.values())
        if gangs:
            _begin(batch, gangs, meetings, at_ms)
        return frozenset(batch.jobs)


def _advanced(batch: Batch, placings: Sequence[Placing], at_ms: int) -> dict[str, Placing]:
    """New attempt id → its placing, for the jobs that still wait."""
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


def _begin(batch: Batch, gangs: dict[str, Placing], meetings: dict[str, Meeting], at_ms: int) -> None:
    jobs = {each: batch.jobs[placing.job_id] for each, placing in gangs.items()}
    Attempt.objects.bulk_create(
        Attempt(
            id=each,
            job=jobs[each].row,
            number=jobs[each].value.attempt,
            placed_ms=at_ms,
            master_address=meetings[each][0],
            master_port=meetings[each][1],
            resume_checkpoint=goes_on_from(jobs[each].value),
            placement_reason=placing.reason,
        )
        for each, placing in gangs.items()
    )
    members = [
        Member(attempt_id=each, node_id=node, rank=rank, slots=list(slots), phase="assigned")
        for each, placing in gangs.items()
        for node, rank, slots in placing.seats
    ]
    Member.objects.bulk_create(members)
    quotas.open_entries([_holding(jobs[member.attempt_id].row, member) for member in members], at_ms)
    batch.write()
    update_each(Job, {job.row.id: _AFRESH for job in jobs.values()})
    clusters.touch(member.node_id for member in members)


def _holding(row: Job, member: Member) -> Holding:
    return Holding(
        member.attempt_id, row.id, member.node_id, row.team_id, row.user_id, row.gpu_type, len(member.slots)
    )


def _meetings(first: dict[str, str], at_ms: int) -> dict[str, Meeting]:
    """Attempt id and its first node → where its ranks meet. Not in it: one whose node has no port left."""
    places = cluster_queries.rendezvous(first.values())
    members = Member.objects.filter(node__in=places, rank=0)
    living = members.filter(attempt__ended_ms=None)
    taken: dict[str, set[int]] = {node_id: set() for node_id in places}
    for node_id, port in living.values_list("node_id", "attempt__master_port"):
        taken[node_id].add(port)
    recent = members.filter(attempt__placed_ms__gte=at_ms - _PORT_RESTS_MS)
    in_order = recent.order_by("attempt__placed_ms", "attempt_id")
    newest: dict[str, int] = dict(in_order.values_list("node_id", "attempt__master_port"))
    meetings = {}
    for attempt_id, node_id in first.items():
        if (free := _next_port(places[node_id], newest.get(node_id), taken[node_id])) is not None:
            meetings[attempt_id] = (places[node_id].address, free)
            newest[node_id] = free
            taken[node_id].add(free)
    return meetings


def _next_port(place: Rendezvous, newest: int | None, taken: Collection[int]) -> int | None:
    """The next one after the one that was given last, so that none is given again soon."""
    low, high = place.port_low, place.port_high
    start = newest + 1 if newest is not None and low <= newest < high else low
    return next((port for port in (*range(start, high + 1), *range(low, start)) if port not in taken), None)
