"""What jobs tell of their nodes: failures by no fault of their own, and wrong results."""

from collections import defaultdict

from platform_core.cluster.device_health import CORRUPTION, FAILED_JOBS, SUSPICION
from platform_core.jobs.ends import EndReason
from platform_core.units import HOUR_MS
from webapp.jobs import corruption
from webapp.jobs.models import Hang, Member

WINDOW_MS = 6 * HOUR_MS
# A lost node is judged by its silence, and a network error names whichever end was heard first.
OF_THE_NODE = (EndReason.GPU_FAILED, EndReason.LAUNCHER, EndReason.DISK_FULL)


def readings_of_nodes(at_ms: int) -> dict[str, dict[str, float]]:
    """By node, under the names of the rules of device health; nodes of which there is nothing to tell are left out."""
    readings: dict[str, dict[str, float]] = defaultdict(dict)
    for node, count in failed_jobs(at_ms).items():
        readings[node][FAILED_JOBS] = float(count)
    guilty, suspected = corruption.accused(at_ms)
    for node, count in guilty.items():
        readings[node][CORRUPTION] = float(count)
    for node in suspected:
        readings[node][SUSPICION] = 1.0
    return dict(readings)


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
