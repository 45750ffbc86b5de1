"""Samples of allocation and utilisation of the cluster, and the utilisation of each running job."""

from collections import defaultdict

from django.db import transaction

from webapp.base.identity import now_ms
from webapp.jobs import idle_policy
from webapp.jobs import queries as job_queries
from webapp.jobs.models import UtilisationSample
from webapp.nodes import queries as clusters
from webapp.sockets import services as sockets

KEPT_MS = 30 * 24 * 3_600_000


def sample() -> None:
    """Takes one sample for each GPU type and deletes those older than 30 days."""
    now = now_ms()
    nodes = clusters.summaries()
    held = clusters.slots([node.id for node in nodes])
    telemetry = clusters.telemetry([node.id for node in nodes])
    by_job: dict[str, list[float]] = defaultdict(list)
    by_type: dict[str, list[float]] = defaultdict(list)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    holders = job_queries.holders()
    for node in nodes:
        busy = (
            {slot.index: slot.utilisation for slot in telemetry[node.id].slots}
            if node.id in telemetry
            else {}
        )
        for slot in held.get(node.id, ()):
            counts[node.gpu_type][0] += 1
            counts[node.gpu_type][1] += bool(slot.attempt_id)
            value = busy.get(slot.index)
            if slot.attempt_id and value is not None:
                by_type[node.gpu_type].append(value)
                if slot.attempt_id in holders:
                    by_job[holders[slot.attempt_id][0]].append(value)
    waiting = job_queries.filtered(job_queries.visible(None), state="waiting")
    with transaction.atomic():
        UtilisationSample.objects.bulk_create(
            UtilisationSample(
                at_ms=now, gpu_type=gpu_type, slots=slots, held=busy_slots, utilisation=_mean(by_type[gpu_type]),
                queued_jobs=waiting.filter(gpu_type=gpu_type).count(),
            )
            for gpu_type, (slots, busy_slots) in counts.items()
        )  # fmt: skip
        UtilisationSample.objects.filter(at_ms__lt=now - KEPT_MS).delete()
    for node in nodes:
        sockets.publish(f"node:{node.id}")  # its page shows the newest telemetry
    sockets.publish("cluster")
    idle_policy.keep_utilisation(
        {job_id: sum(values) / len(values) for job_id, values in by_job.items()}, now
    )
    idle_policy.deal_with_idle(now)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
