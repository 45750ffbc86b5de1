"""Predicted against measured: what the planner says of a job, beside what its ranks measure, and what is learnt."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from platform_core.efficiency.ranks import Rank
from platform_core.jobs.spec import JobSpec, restore
from platform_core.parallelism.calibration import Calibration, learn
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.job_plan import Estimate, estimate, predict
from platform_core.parallelism.plan import title
from platform_core.units import HOUR_MS
from webapp.base.identity import now_ms
from webapp.experiments import efficiency
from webapp.experiments.models import Prediction, Run
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes
from webapp.quotas import queries as quotas

STEPS = 20  # of a run, before its mean says something
ROWS = 200  # the newest of a GPU type that count
SETTLED_MS = HOUR_MS  # after the end of a job nothing of it arrives any more


@dataclass(frozen=True, slots=True)
class Learnt:
    """Of one GPU type of this cluster. `memory` is None where no rank has measured any."""

    gpu_type: str
    step: Calibration
    memory: Calibration | None


def calibration(gpu_type: str) -> Calibration:
    rows = _newest(gpu_type).values_list("predicted_seconds", "measured_seconds")
    return learn(list(rows))


def learnt() -> list[Learnt]:
    """Of all GPU types that have rows."""
    kinds = Prediction.objects.order_by("gpu_type").values_list("gpu_type", flat=True).distinct()
    return [Learnt(kind, calibration(kind), _memory(kind)) for kind in kinds]


def compared(teams: Collection[str] | None, gpu_type: str = "") -> list[Prediction]:
    """Of the runs of these teams (None: of all), the newest first."""
    rows = Prediction.objects.select_related("run", "run__experiment").order_by("-at_ms", "run_id")
    if teams is not None:
        rows = rows.filter(run__experiment__team__in=teams)
    if gpu_type:
        rows = rows.filter(gpu_type=gpu_type)
    return list(rows[:ROWS])


def of_run(run_id: str) -> Prediction | None:
    return Prediction.objects.filter(run=run_id).first()


def estimate_of(spec: JobSpec) -> Estimate | None:
    """None where its model shape is not known."""
    cluster = nodes.cluster_of(spec.gpu_type, spec.num_gpus)
    if cluster is None:
        return Estimate(
            None, f"memory and time are not known: the planner has no figures of {spec.gpu_type}", None
        )
    return estimate(spec, cluster, quotas.price(spec.gpu_type), calibration(spec.gpu_type))


def compare(at_ms: int | None = None) -> int:
    """Brings the rows of running jobs, and of those that ended lately, up to date; returns how many."""
    now = now_ms() if at_ms is None else at_ms
    ended = Q(job__finished_ms=None) | Q(job__finished_ms__gte=now - SETTLED_MS)
    rows = Run.objects.filter(ended, job__spec__transformer__sequence__gt=0, job__step__gte=STEPS)
    wanted = list(rows.select_related("job"))
    measured = efficiency.of_runs(wanted) if wanted else {}
    return sum(_compare(run, measured[run.id].ranks, now) for run in wanted)


def _compare(run: Run, ranks: tuple[Rank, ...], now: int) -> bool:
    assert run.job is not None
    place = _place(run.job.id, run.job.gpu_type)
    if place is None or place.gpus != len(ranks):
        return False
    gpus = place.gpus
    plan = predict(restore(run.job.spec), gpus, place)
    if plan is None:
        return False
    memory = max((rank.memory_bytes or 0.0 for rank in ranks), default=0.0)
    Prediction.objects.update_or_create(
        run=run,
        defaults={
            "gpu_type": run.job.gpu_type,
            "gpus": gpus,
            "layout": title(plan.layout)[:200],
            "predicted_seconds": plan.step.total,
            "measured_seconds": max(_own(rank) for rank in ranks),
            "predicted_bytes": plan.memory.total,
            "measured_bytes": round(memory) or None,
            "at_ms": run.job.finished_ms or now,
        },
    )
    return True


def _place(job_id: str, gpu_type: str) -> Cluster | None:
    """Of all its attempts that made a step; None where they had different places, which one mean cannot tell apart."""
    places = {
        nodes.cluster_at(
            gpu_type, [(member.node, len(member.slots)) for member in jobs.in_rank_order(attempt)]
        )
        for attempt in jobs.attempts(job_id)
        if attempt.first_step_ms is not None
    }
    return places.pop() if len(places) == 1 else None


def _own(rank: Rank) -> float:
    """Seconds of a step without waiting for data. The shares are of the wall time, the step is without the others."""
    training = max(1e-9, 1 - rank.evaluation - rank.checkpoint)
    return rank.step_seconds * max(0.0, 1 - rank.data / training)


def _memory(gpu_type: str) -> Calibration | None:
    rows = _newest(gpu_type).values_list("predicted_bytes", "measured_bytes")
    measured = [(predicted, used) for predicted, used in rows if used]
    return learn(measured) if measured else None


def _newest(gpu_type: str) -> QuerySet[Prediction]:
    return Prediction.objects.filter(gpu_type=gpu_type, measured_seconds__gt=0).order_by("-at_ms")[:ROWS]
