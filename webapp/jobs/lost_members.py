"""Members that no node will report: what is left of a failed gang on silent nodes, and what operators declare lost
as its container engine is gone for good."""

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs import events, gang
from platform_core.jobs.job import Stop
from platform_core.jobs.states import ACTIVE
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.jobs.models import Job, Member
from webapp.jobs.transitions import Batch
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters


def end_on_silent_nodes(at_ms: int, fence: Fence = transaction.atomic) -> None:
    """Ends what is left of each failed gang on nodes of which nothing is heard, before these count as lost."""
    silent = cluster_queries.silent()
    if not silent:
        return
    living = Member.objects.filter(node__in=silent, phase__in=["assigned", "preparing", "running"])
    failed = living.filter(attempt__job__stop=Stop.RESTART).order_by("attempt__job_id")
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
    """Ends the members of a stopping job whose nodes do not answer. Returns these nodes.

    The processes may still run there, so the nodes are drained: their slots are free, and used again only after an
    operator has resumed the nodes.
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
    return job.stop != Stop.NONE and job.state in ACTIVE and permissions.may(actor, "node.operate")


def in_words(nodes: tuple[str, ...]) -> str:
    names = ", ".join(sorted(cluster_queries.hostnames(nodes).values()))
    return f"Its part on {names} is taken as lost. Nothing new is placed there until you resume it."
