"""Ends of attempts that no node will ever report: its container engine is gone for good, its order cannot be made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs import events
from platform_core.jobs.job import MemberPhase, Stop
from platform_core.jobs.states import ACTIVE
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.clusters import queries as cluster_queries
from webapp.clusters import services as clusters
from webapp.jobs import queries, services
from webapp.jobs.models import Job
from webapp.jobs.stepping import Batch
from webapp.live.identity import now_ms

SHOWN_JOBS = 5  # named in a sentence


@transaction.atomic
def declare_lost(actor: Actor, job_id: str, cause: str = "") -> tuple[str, ...]:
    """The nodes that have not answered to the stop of this job have lost their part of it. Which they were.

    Nobody knows whether its processes are really gone there, so these nodes are drained: what they held is free in the
    books, and used again only when an operator has looked and resumes them.
    """
    permissions.require(actor, "node.operate")
    batch = Batch([job_id])
    if job_id not in batch.jobs:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    job = batch.jobs[job_id]
    if not (job.value.state in ACTIVE and job.value.stop is not Stop.NONE):
        why = "only a job that is being stopped and whose nodes do not answer is lost; cancel it first"
        raise TrainmasterError("request_invalid", what=f"declaring {job_id} lost", why=why)
    nodes = tuple(member.node for member in job.value.living)
    told = f"declared lost by {actor.username or 'the platform'}" + (f", {cause}" if cause else "")
    for node_id in nodes:
        batch.advance(job_id, events.NodeLost(at_ms=now_ms(), actor=actor.name, cause=told, node=node_id))
    batch.write()
    for node_id in nodes:
        clusters.drain(actor, node_id, f"{job_id} was {told}")
    clusters.touch(nodes)  # an agent whose engine comes back clears away what is no longer wanted
    return nodes


@dataclass(frozen=True, slots=True)
class Unstartable:
    """One node's part of an attempt for which the platform cannot make the order, and why."""

    node_id: str
    job_id: str
    attempt_id: str
    attempt: int
    why: str


def declare_unstartable(failures: Sequence[Unstartable]) -> None:
    """These parts end before they begin, with the reason, and nothing of them is wanted of their nodes."""
    if not failures:
        return
    with transaction.atomic():
        services.observe_all([(each.job_id, _never_started(each)) for each in failures])
        clusters.touch(services.mark_drained({(each.attempt_id, each.node_id) for each in failures}))


def _never_started(failure: Unstartable) -> events.MemberObserved:
    return events.MemberObserved(
        at_ms=now_ms(), actor="system", attempt=failure.attempt, node=failure.node_id,
        phase=MemberPhase.EXITED, reason=f"it cannot be started there: {failure.why}",
    )  # fmt: skip


def keep_secret_in_use(sender: Any, team: str, name: str, **_: Any) -> None:
    """A job that has not ended needs it: to start again elsewhere, and to have it masked in what it writes."""
    jobs = queries.using_secret(team, name)
    if jobs:
        named = ", ".join(f"{job.name} ({job.id})" for job in jobs[:SHOWN_JOBS])
        more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
        raise TrainmasterError("secret_in_use", name=name, jobs=named + more)


def can_be_lost(actor: Actor, job: Job) -> bool:
    """Whether this person would be listened to."""
    return job.stop != Stop.NONE and job.state in ACTIVE and permissions.may(actor, "node.operate")


def in_words(nodes: tuple[str, ...]) -> str:
    names = ", ".join(sorted(cluster_queries.hostnames(nodes).values()))
    return f"Its part on {names} is taken as lost. Nothing new is placed there until you resume it."
