"""The layout of a job on its nodes: which ranks each of them has, and their groups."""

from dataclasses import dataclass

from platform_core.jobs.fields import load_fields
from platform_core.jobs.parallel import Parallel, title_of
from platform_core.jobs.rank_groups import NodeGroups, node_groups
from platform_core.jobs.states import TERMINAL
from webapp.jobs import queries
from webapp.jobs.models import Attempt, Job


@dataclass(frozen=True, slots=True)
class LaidOutNode:
    node_id: str
    node: str  # its hostname
    rack: str
    groups: NodeGroups


@dataclass(frozen=True, slots=True)
class LaidOut:
    """`nodes` in order of rank; () before it is placed."""

    title: str
    dimensions: tuple[str, ...]
    nodes: tuple[LaidOutNode, ...]


def shown_attempt(job: Job) -> Attempt | None:
    """Returns the attempt whose nodes are shown: the one that runs, or that the job ended with."""
    newest = next(iter(queries.attempts(job.id)), None)
    ended = newest is not None and newest.ended_ms is not None
    return None if ended and job.state not in TERMINAL else newest


def title(job: Job, attempt: Attempt | None) -> str:
    """An elastic job has as many copies of the model as its attempt has slots for. '' without a layout."""
    held = sum(len(member.slots) for member in attempt.members.all()) if attempt is not None else 0
    return title_of(job.spec, held or job.num_gpus)


def of_job(job: Job, attempt: Attempt | None) -> LaidOut | None:
    """None where the job file names no layout."""
    parallel: Parallel = load_fields(Parallel, job.spec.get("parallel") or {})
    if not parallel.is_given:
        return None
    members = queries.in_rank_order(attempt) if attempt is not None else []
    groups = node_groups(parallel, [len(member.slots) for member in members])
    names = tuple(name for name, _ in groups[0].coordinates) if groups else ()
    nodes = tuple(
        LaidOutNode(member.node_id, member.node.hostname, member.node.rack, part)
        for member, part in zip(members, groups, strict=True)
    )
    return LaidOut(title(job, attempt), names, nodes)
