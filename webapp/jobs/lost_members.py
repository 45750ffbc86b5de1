"""Members that no node will report: what is left of a failed gang on silent nodes, what goes on while its node is cut
off, and what operators declare lost as its machine or its container engine is gone for good."""

import contextlib
from collections.abc import Collection

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs import events, gang
from platform_core.jobs.cut_off import WhenCutOff
from platform_core.jobs.job import Stop
from platform_core.jobs.states import ACTIVE
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.events import queries as stories
from webapp.events import services as story
from webapp.jobs.models import Job, Member
from webapp.jobs.transitions import Batch, jobs_on, step
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters


class _IsBack(Exception):
    """The node has said hello since it was lost: it says itself what it runs."""


def node_lost(node_id: str, at_ms: int, fence: Fence = transaction.atomic) -> None:
    """Ends the member on this node of every gang that has one, and clears them from its wanted state.

    Not of jobs that continue when they are cut off, nor where the node has come back meanwhile.
    """
    gangs = jobs_on(node_id)
    staying = _continuing(gangs)
    if len(staying) < len(gangs):
        with fence():
            clusters.touch([node_id])
    for job_id in gangs:
        with contextlib.suppress(_IsBack), fence():
            if job_id in staying:
                _note_cut_off(job_id, node_id, at_ms)
                continue
            step(job_id, events.NodeLost(at_ms=at_ms, actor="system", node=node_id))
            if not clusters.is_lost(node_id):
                raise _IsBack


def end_on_silent_nodes(at_ms: int, fence: Fence = transaction.atomic) -> None:
    """Ends what is left of each failed gang on nodes of which nothing is heard, before these count as lost.

    Only of jobs that may run twice: on a node that is cut off their ranks may still live.
    """
    silent = cluster_queries.silent()
    if not silent:
        return
    living = Member.objects.filter(node__in=silent, phase__in=["assigned", "preparing", "running"])
    overlapping = living.filter(attempt__job__spec__when_cut_off=WhenCutOff.OVERLAP.value)
    failed = overlapping.filter(attempt__job__stop=Stop.RESTART).order_by("attempt__job_id")
    for job_id in failed.values_list("attempt__job_id", flat=True).distinct():
        with fence():
            batch = Batch([job_id])
            left = gang.left_on_silent_nodes(batch.jobs[job_id].value, silent)
            for member in left:
                lost = events.NodeLost(
                    at_ms=at_ms, actor="system", cause=silent[member.node], node=member.node
                )
                batch.advance(job_id, lost)
            batch.write()
            clusters.touch([member.node for member in left])  # one that is heard again ends it


@transaction.atomic
def declare_lost(actor: Actor, job_id: str, cause: str = "") -> tuple[str, ...]:
    """Ends the members of a job on nodes that are lost, or, while it is being stopped, on all its nodes. Returns these.

    The processes may still run there, so the nodes are drained: their slots are free, and used again only after an
    operator has resumed the nodes.
    """
    permissions.require(actor, "node.operate")
    batch = Batch([job_id])
    if job_id not in batch.jobs:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    job = batch.jobs[job_id]
    nodes = tuple(member.node for member in job.value.living)
    if job.value.stop is Stop.NONE:
        lost = cluster_queries.lost(nodes)
        nodes = tuple(node for node in nodes if node in lost)
    if not (job.value.state in ACTIVE and nodes):
        why = (
            "none of its nodes is lost, and only a job that is being stopped is lost sooner; cancel it first"
        )
        raise TrainmasterError("request_invalid", what=f"declaring {job_id} lost", why=why)
    declaration = f"declared lost by {actor.username or 'the platform'}" + (f", {cause}" if cause else "")
    for node_id in nodes:
        batch.advance(
            job_id, events.NodeLost(at_ms=now_ms(), actor=actor.name, cause=declaration, node=node_id)
        )
    batch.write()
    for node_id in nodes:
        clusters.drain(actor, node_id, f"{job_id} was {declaration}")
    clusters.touch(nodes)  # an agent whose engine comes back clears away what is no longer wanted
    return nodes


def can_be_lost(actor: Actor, job: Job) -> bool:
    """Whether the actor may declare the members of this job lost."""
    if job.state not in ACTIVE or not permissions.may(actor, "node.operate"):
        return False
    if job.stop != Stop.NONE:
        return True
    living = Member.objects.filter(attempt__job=job, phase__in=["assigned", "preparing", "running"])
    return bool(cluster_queries.lost(living.values_list("node_id", flat=True)))


def _continuing(job_ids: Collection[str]) -> frozenset[str]:
    """Those of these jobs whose ranks go on when their node is cut off, and start elsewhere only once ended."""
    rows = Job.objects.filter(id__in=job_ids, spec__when_cut_off=WhenCutOff.CONTINUE.value)
    return frozenset(rows.values_list("id", flat=True))


def _note_cut_off(job_id: str, node_id: str, at_ms: int) -> None:
    """Records once for each loss of the node that the job waits for it."""
    since_ms = cluster_queries.lost([node_id]).get(node_id)
    noted = stories.moments("CutOff", f"job:{job_id}", 20)
    if since_ms is None or any(moment >= since_ms and data["node"] == node_id for moment, data in noted):
        return
    name = cluster_queries.hostname(node_id)
    waits = f"{name} is lost; its ranks there may go on, so they start elsewhere only once it is back"
    story.record(
        "CutOff",
        f"job:{job_id}",
        actor="system",
        team=Job.objects.values_list("team_id", flat=True).get(id=job_id),
        cause=f"{waits}, or an operator declares them lost",
        at_ms=at_ms,
        data={"node": node_id, "name": name},
        notify=(f"job:{job_id}",),
    )


def in_words(nodes: tuple[str, ...]) -> str:
    names = ", ".join(sorted(cluster_queries.hostnames(nodes).values()))
    return f"Its part on {names} is taken as lost. Nothing new is placed there until you resume it."
