from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet

from platform_core.errors import TrainmasterError
from platform_core.jobs.states import JobState
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.experiments.models import Experiment, Run

_OUTCOME = (
    "experiment_id", "tags", "summary", "created_ms",
    "job__name", "job__state", "job__finished_ms", "job__progress_ms",
)  # fmt: skip


def visible(teams: Iterable[str] | None) -> QuerySet[Experiment]:
    rows = Experiment.objects.select_related("team").order_by("-created_ms", "-id")
    return rows if teams is None else rows.filter(team__in=list(teams))


def find(experiment_id: int) -> Experiment | None:
    return Experiment.objects.select_related("team").filter(id=experiment_id).first()


def run(run_id: str) -> Run | None:
    return Run.objects.select_related("experiment__team", "job__user").filter(id=run_id).first()


def runs(experiment_id: int) -> list[Run]:
    rows = Run.objects.filter(experiment=experiment_id).select_related("job__user", "experiment")
    return list(rows.order_by("-created_ms", "-id"))


def outcomes(experiment_ids: Sequence[int]) -> dict[int, list[Run]]:
    """The runs of each, newest first, without what they were made of; an experiment without runs is left out."""
    by_experiment: dict[int, list[Run]] = defaultdict(list)
    rows = Run.objects.filter(experiment__in=experiment_ids).select_related("job").only(*_OUTCOME)
    for row in rows.order_by("-created_ms", "-id"):
        by_experiment[row.experiment_id].append(row)
    return by_experiment


def chosen(run_ids: Sequence[str]) -> list[Run]:
    """These runs, in the order asked for; unknown ids are left out."""
    rows = Run.objects.filter(id__in=run_ids).select_related("job__user", "experiment__team")
    found = {row.id: row for row in rows}
    return [found[run_id] for run_id in dict.fromkeys(run_ids) if run_id in found]


def newest_runs(teams: Iterable[str] | None, username: str, limit: int) -> list[Run]:
    """The newest runs of this person's jobs among these teams that have ended with success; None means all teams."""
    rows = Run.objects.filter(job__user__username=username, job__state=JobState.SUCCEEDED)
    if teams is not None:
        rows = rows.filter(job__team__in=list(teams))
    return list(rows.select_related("job", "experiment").order_by("-job__finished_ms", "-id")[:limit])


def run_for(request: Any, run_id: str) -> Run:
    known = run(run_id)
    if known is None:
        raise TrainmasterError("not_found", what=f"run {run_id}")
    require(actor_of(request), "experiment.view", known.experiment.team_id, what=f"run {run_id}")
    return known
