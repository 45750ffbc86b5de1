"""Nodes on which jobs fail by no fault of their own."""

from collections import defaultdict

from platform_core.jobs.ends import EndReason
from platform_core.units import HOUR_MS
from webapp.jobs.models import Hang, Member

WINDOW_MS = 6 * HOUR_MS
# A lost node is judged by its silence, and a network error names whichever end was heard first.
OF_THE_NODE = (EndReason.GPU_FAILED, EndReason.LAUNCHER, EndReason.DISK_FULL)


def failed_jobs(at_ms: int) -> dict[str, int]:
    """By node how many different jobs have failed there lately."""
    since_ms = at_ms - WINDOW_MS
    members = Member.objects.filter(attempt__ended_ms__gte=since_ms, end__in=OF_THE_NODE)
    hangs = Hang.objects.filter(at_ms__gte=since_ms, stage=Hang.Stage.RESTARTED).exclude(stuck_node="")
    jobs: dict[str, set[str]] = defaultdict(set)
    for node, job in [
        *members.values_list("node_id", "attempt__job_id"),
        *hangs.values_list("stuck_node", "attempt__job_id"),
    ]:
        jobs[node].add(job)
    return {node: len(failed) for node, failed in jobs.items()}
