"""A gang gets its slots: all of them in one transaction, or none."""

from collections.abc import Sequence

from django.db import transaction

from platform_core.errors import IllegalTransition
from platform_core.jobs import events
from platform_core.jobs.job import Member as MemberValue
from webapp.clusters import queries as cluster_queries
from webapp.clusters import services as clusters
from webapp.jobs import stepping
from webapp.jobs.models import Attempt, Job, Member
from webapp.live.identity import new_id
from webapp.quotas import services as quotas

Seat = tuple[str, int, tuple[int, ...]]  # node id, node rank, slot indices


class Stale(Exception):
    """What the plan was made from is no longer so; the next round plans again."""


def place(job_id: str, seats: Sequence[Seat], reason: str, at_ms: int) -> bool:
    """Start a new attempt of a waiting job on these seats. False when anything changed since the plan was made."""
    try:
        with transaction.atomic():
            _place(job_id, seats, reason, at_ms)
    except (Stale, clusters.SlotsTaken, IllegalTransition):
        return False
    return True


def _place(job_id: str, seats: Sequence[Seat], reason: str, at_ms: int) -> None:
    row = Job.objects.select_for_update(of=("self",)).get(id=job_id)
    number = row.attempt + 1
    first = cluster_queries.rendezvous(seats[0][0])
    attempt = Attempt.objects.create(
        id=new_id("att"),
        job=row,
        number=number,
        placed_ms=at_ms,
        master_address=first.address,
        master_port=_free_port(seats[0][0], first.port_low, first.port_high),
        resume_checkpoint=row.latest_checkpoint or row.spec.get("resume_from", ""),
        placement_reason=reason,
    )
    members = tuple(MemberValue(node=node, rank=rank, slots=slots) for node, rank, slots in seats)
    for node, rank, slots in sorted(seats):  # a fixed order of locks
        clusters.assign_slots(attempt.id, node, slots)
        quotas.open_entry(
            attempt_id=attempt.id, job_id=row.id, node_id=node, team=row.team_id, user_id=row.user_id,
            gpu_type=row.gpu_type, slots=len(slots), at_ms=at_ms,
        )  # fmt: skip
        Member.objects.create(attempt=attempt, node_id=node, rank=rank, slots=list(slots), phase="assigned")
    before = row.version
    after = stepping.step(
        job_id, events.Placed(at_ms=at_ms, actor="scheduler", cause=reason, attempt=number, members=members)
    )
    if after is None or after.version == before:
        raise Stale
    Job.objects.filter(id=job_id).update(
        wait_code="", wait_sentence="", wait_numbers={}, queue_position=None, first_step=None, first_step_ms=None,
        utilisation=None, idle_since_ms=None, idle_told=False, resize_to=0,
    )  # fmt: skip
    clusters.touch([node for node, _, _ in seats])


def _free_port(node_id: str, low: int, high: int) -> int:
    """The next rendezvous port of the gang's first node, after the one used last, that no living attempt holds."""
    living = Attempt.objects.filter(ended_ms=None, members__node_id=node_id, members__rank=0)
    taken = set(living.values_list("master_port", flat=True))
    newest = (
        Attempt.objects.filter(members__node_id=node_id, members__rank=0)
        .order_by("-placed_ms", "-id")
        .values_list("master_port", flat=True)
        .first()
    )
    start = newest + 1 if newest is not None and low <= newest < high else low
    candidates = [*range(start, high + 1), *range(low, start)]
    for port in candidates:
        if port not in taken:
            return port
    raise Stale
