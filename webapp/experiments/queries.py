from collections.abc import Iterable, Sequence

from django.db.models import QuerySet

from webapp.experiments.models import Experiment, Run


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


def chosen(run_ids: Sequence[str]) -> list[Run]:
    """These runs, in the order asked for; unknown ids are left out."""
    rows = Run.objects.filter(id__in=run_ids).select_related("job__user", "experiment__team")
    found = {row.id: row for row in rows}
    return [found[run_id] for run_id in dict.fromkeys(run_ids) if run_id in found]
