"""GPU time of a period by job, with how well it was used: utilisation from the nodes, MFU from the ranks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from platform_core.efficiency.mfu import believable
from platform_core.efficiency.waste import Use
from webapp.experiments.models import Run
from webapp.quotas import queries as quotas


def uses(teams: Collection[str] | None, from_ms: int, to_ms: int) -> list[Use]:
    """Of the jobs of these teams (None: of all) that held slots in the period.

    Utilisation and MFU are means over all of a job, also where it began before the period; MFU as `measures.measure`
    has found it last.
    """
    costs = quotas.costs_by_team_and_job(teams, from_ms, to_ms)
    measured = _measured([cost.id for _, cost in costs])
    found = []
    for team, cost in costs:
        name, utilisation, mfu = measured.get(cost.id, (cost.id, None, None))
        dollars = cost.micro_dollars
        found.append(
            Use(cost.id, name, team, cost.user, cost.gpu_type, cost.gpu_ms, dollars, utilisation, mfu)
        )
    return found


def _measured(job_ids: Sequence[str]) -> dict[str, tuple[str, float | None, float | None]]:
    """Job → its name, mean utilisation if the nodes have measured it, and MFU if its ranks have."""
    columns = ("job_id", "job__name", "job__busy_samples", "job__busy_sum", "mfu")
    rows = Run.objects.filter(job__in=job_ids).values_list(*columns)
    return {
        job: (name, total / samples if samples else None, believable(mfu))
        for job, name, samples, total, mfu in rows
    }
