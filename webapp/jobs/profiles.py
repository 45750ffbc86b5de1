"""Profiles of running jobs: ordered here, recorded by the script, kept with its run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter

from django.db import transaction
from django.db.models import Max

from platform_core.errors import TrainmasterError
from platform_core.jobs.states import JobState
from platform_core.node.wanted import ProfileOrder as Order
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.events import services as events
from webapp.jobs.models import Attempt, Job, Member, ProfileOrder
from webapp.nodes import services as clusters
from webapp.sockets import services as sockets

STEPS, MOST_STEPS, MOST_RANKS = 20, 200, 16
KEPT = 16  # orders of an attempt: a script that has not followed an older one by now never will
KINDS = {
    "trace": "profile",
    "memory": "memory",
    "flame": "flame",
}  # and what the names of its files begin with


def order(
    actor: Actor, job_id: str, steps: int = STEPS, ranks: Sequence[int] = (0,), kind: str = "trace"
) -> Order:
    """Asks these ranks of a running job to record their next steps. Raises request_invalid."""
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).filter(id=job_id).select_related("user").first()
        if job is None:
            raise TrainmasterError("not_found", what=f"job {job_id}")
        permissions.require(actor, "job.cancel", job.team_id, owner=job.user.username)
        _require_sensible(job, steps, ranks, kind)
        attempt = Attempt.objects.get(job=job, number=job.attempt)
        earlier = ProfileOrder.objects.filter(attempt=attempt)
        number = 1 + (earlier.aggregate(last=Max("number"))["last"] or 0)
        row = ProfileOrder.objects.create(
            attempt=attempt, number=number, steps=steps, ranks=sorted(set(ranks)), kind=kind
        )
        earlier.filter(number__lte=number - KEPT).delete()
        clusters.touch(
            Member.objects.filter(attempt=attempt, drained=False).values_list("node_id", flat=True)
        )
        cause = f"{kind} of {steps} steps of rank {', '.join(map(str, row.ranks))}"
        events.record(
            "ProfileOrdered", f"job:{job.id}", actor=actor.name, team=job.team_id, cause=cause,
            data={"name": job.name, "state": job.state, "attempt": attempt.number}, notify=(f"jobs:{job.team_id}",),
        )  # fmt: skip
    sockets.publish(f"job:{job_id}")
    return _value(row)


def all_ranks(count: int) -> list[int]:
    """So that they can be compared; of more than can be recorded at once, some that are equally far apart."""
    taken = min(count, MOST_RANKS)
    return [place * count // taken for place in range(taken)]


def ordered(attempt_ids: Collection[str]) -> dict[str, tuple[Order, ...]]:
    """By attempt, the last orders, oldest first."""
    rows = ProfileOrder.objects.filter(attempt__in=attempt_ids).order_by("attempt", "number")
    return {key: tuple(map(_value, its)) for key, its in groupby(rows, attrgetter("attempt_id"))}


def _value(row: ProfileOrder) -> Order:
    return Order(row.number, row.steps, tuple(row.ranks), row.kind)


def _require_sensible(job: Job, steps: int, ranks: Sequence[int], kind: str) -> None:
    why = ""
    if kind not in KINDS:
        raise TrainmasterError(
            "request_invalid", what="kind", why=f"{kind[:40]!r} is none of {', '.join(KINDS)}"
        )
    if job.state not in (JobState.RUNNING, JobState.CHECKPOINTING) or job.stop != "none":
        state = "is being stopped" if job.stop != "none" else f"is {job.state}"
        why = f"the job {state}; it must be running"
    elif not 1 <= steps <= MOST_STEPS:
        why = f"{steps} steps; 1 to {MOST_STEPS} can be recorded"
    elif not 1 <= len(set(ranks)) <= MOST_RANKS:
        why = f"{len(set(ranks))} ranks; 1 to {MOST_RANKS} can be recorded at once"
    elif (beyond := max(ranks)) >= job.num_gpus or min(ranks) < 0:
        why = f"the job has the ranks 0 to {job.num_gpus - 1}, not {beyond if beyond >= job.num_gpus else min(ranks)}"
    if why:
        raise TrainmasterError("request_invalid", what="a profile", why=why)
