import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import JSONObject

from platform_core.efficiency.mfu import believable
from platform_core.errors import TrainmasterError
from platform_core.experiments.search import Field, FieldKind, fields_of, parse_filter, parse_order
from platform_core.experiments.states import RunState
from platform_core.storage.holdings import Age, Holding
from webapp.accounts.permissions import Actor, may, require
from webapp.accounts.queries import actor_of
from webapp.base.ages import age
from webapp.experiments import search
from webapp.experiments.models import Experiment, RichValue, Run, RunArtifact, RunDataset, RunFile
from webapp.metrics import queries as metrics

VIEWS = {
    "active": Q(deleted_ms=None, archived_ms=None),
    "archived": Q(deleted_ms=None, archived_ms__isnull=False),
    "deleted": Q(deleted_ms__isnull=False),
    "all": Q(),
}


def shown_in(view: str) -> Q:
    if view not in VIEWS:
        why = f"{view[:40]!r} is none of {', '.join(VIEWS)}"
        raise TrainmasterError("request_invalid", what="view", why=why)
    return VIEWS[view]


def visible(teams: Iterable[str] | None, view: str = "active") -> QuerySet[Experiment]:
    """Experiments of one of `VIEWS`, newest first; None means all teams."""
    rows = Experiment.objects.filter(shown_in(view))
    rows = rows.select_related("team", "created_by").order_by("-created_ms", "-id")
    return rows if teams is None else rows.filter(team__in=list(teams))


def all_of_team(actor: Actor, team: str) -> list[Experiment]:
    """Every experiment of a team, also archived and deleted ones."""
    require(actor, "experiment.view", team)
    return list(Experiment.objects.filter(team=team).order_by("id"))


def listed(teams: Iterable[str] | None, view: str) -> QuerySet[Experiment]:
    """Experiments that are active, archived or deleted, the newest first; None means all teams."""
    shown = VIEWS.get(view, VIEWS["active"])
    rows = Experiment.objects.filter(shown).select_related("team").order_by("-created_ms", "-id")
    return rows if teams is None else rows.filter(team__in=list(teams))


def find(experiment_id: int) -> Experiment | None:
    rows = Experiment.objects.select_related("team", "created_by")
    return rows.filter(id=experiment_id, deleted_ms=None).first()


def find_experiment(
    actor: Actor, reference: int | str, *, team: str | None = None, deleted: bool = False
) -> Experiment:
    """Returns an experiment by its id, or by its name in a team, or in any team of the actor. Raises not_found.

    With `deleted` it may be a deleted one; by name, one that is not deleted comes first.
    """
    rows = Experiment.objects.select_related("team", "created_by")
    if not deleted:
        rows = rows.filter(deleted_ms=None)
    if isinstance(reference, int):
        rows = rows.filter(id=reference) if 0 < reference < 1 << 63 else rows.none()
    else:
        rows = rows.filter(name=reference)
        if actor.sees is not None:
            rows = rows.filter(team__in=actor.sees)
    if team is not None:
        rows = rows.filter(team=team)
    what = f"experiment {reference}"
    experiment = rows.order_by(F("deleted_ms").desc(nulls_first=True), "id").first()
    if experiment is None:
        raise TrainmasterError("not_found", what=what)
    require(actor, "experiment.view", experiment.team_id, what=what)
    return experiment


def find_run(actor: Actor, run_id: str, *, deleted: bool = False) -> Run:
    """Returns a run; with `deleted` it may be a deleted one. Raises not_found."""
    what = f"run {run_id[:60]}"
    row = _runs().filter(id=run_id).first()
    if row is None or (row.deleted_ms is not None and not deleted):
        raise TrainmasterError("not_found", what=what)
    require(actor, "experiment.view", row.experiment.team_id, what=what)
    return row


def exists(run_id: str) -> bool:
    return Run.objects.filter(id=run_id).exists()


def _runs() -> QuerySet[Run]:
    return Run.objects.select_related("experiment__team", "owner", "job__user")


def run(run_id: str) -> Run | None:
    return _runs().filter(id=run_id, deleted_ms=None).first()


def runs(experiment_id: int) -> list[Run]:
    rows = _runs().filter(experiment=experiment_id, deleted_ms=None, archived_ms=None)
    return with_summaries(rows.order_by("-created_ms", "-id"))


def with_summaries(rows: Iterable[Run]) -> list[Run]:
    """The runs with the summaries of their metrics, read in one query."""
    runs = list(rows)
    found = metrics.summaries(run.id for run in runs)
    for run in runs:
        run.summaries = found[run.id]
    return runs


def chosen(run_ids: Sequence[str]) -> list[Run]:
    """These runs, in the order asked for; unknown ids are left out."""
    found = {row.id: row for row in with_summaries(_runs().filter(id__in=run_ids, deleted_ms=None))}
    return [found[run_id] for run_id in dict.fromkeys(run_ids) if run_id in found]


def newest_runs(teams: Iterable[str] | None, username: str, limit: int) -> list[Run]:
    """The newest runs of this person among these teams that have ended with success; None means all teams."""
    rows = Run.objects.filter(
        owner__username=username, state=RunState.SUCCEEDED, deleted_ms=None, archived_ms=None
    )
    if teams is not None:
        rows = rows.filter(experiment__team__in=list(teams))
    rows = rows.select_related("job", "experiment").order_by("-ended_ms", "-id")
    return with_summaries(rows[:limit])


def run_for(request: Any, run_id: str) -> Run:
    return find_run(actor_of(request), run_id)


def may_watch_run(user: Any, run_id: str) -> bool:
    team = (
        Run.objects.filter(id=run_id, deleted_ms=None).values_list("experiment__team_id", flat=True).first()
    )
    return team is not None and may(actor_of(user), "experiment.view", team)


def may_watch_experiment(user: Any, experiment_id: str) -> bool:
    experiment = find(int(experiment_id)) if re.fullmatch(r"[0-9]{1,18}", experiment_id, re.ASCII) else None
    return experiment is not None and may(actor_of(user), "experiment.view", experiment.team_id)


@dataclass(frozen=True, slots=True)
class RunPage:
    runs: list[Run]  # with experiment, owner and job
    next_cursor: str | None  # None at the end


MOST_RUNS = 1_000  # of a page; MLflow clients ask for up to 50,000 and take fewer
_ARCHIVED = Field(FieldKind.ATTRIBUTE, "archived")


def matching_runs(
    actor: Actor,
    *,
    experiments: Collection[int | str] | None = None,
    teams: Iterable[str] | None = None,
    filter: str = "",
    view: str = "active",
) -> QuerySet[Run]:
    """The runs that the actor may see and that match, in no order.

    `experiments` (ids and names) and `teams` narrow; those that the actor may not see have no runs. A filter that names
    `archived` decides itself about archived runs. Raises filter_invalid, request_invalid.
    """
    parsed = parse_filter(filter)
    shown = shown_in(view)
    if view == "active" and _ARCHIVED in fields_of(parsed):
        shown = Q(deleted_ms=None)
    of_experiments = Experiment.objects.all()
    if actor.sees is not None:
        of_experiments = of_experiments.filter(team__in=actor.sees)
    if teams is not None:
        of_experiments = of_experiments.filter(team__in=list(teams))
    if experiments is not None:
        ids = [key for key in experiments if isinstance(key, int) and 0 < key < 1 << 63]
        names = [key for key in experiments if isinstance(key, str)]
        of_experiments = of_experiments.filter(Q(id__in=ids) | Q(name__in=names))
    found = list(of_experiments.values_list("id", flat=True))
    return search.matching(Run.objects.filter(shown, experiment__in=found), parsed)


def search_runs(
    actor: Actor,
    *,
    experiments: Collection[int | str] | None = None,
    teams: Iterable[str] | None = None,
    filter: str = "",
    order_by: Sequence[str] = (),
    limit: int = 100,
    cursor: str = "",
    view: str = "active",
) -> RunPage:
    """One page of `matching_runs`, by default the newest first."""
    order = parse_order(", ".join(order_by))
    rows = matching_runs(actor, experiments=experiments, teams=teams, filter=filter, view=view)
    ids, next_cursor = search.page(rows, order, max(1, min(limit, MOST_RUNS)), cursor)
    found = {row.id: row for row in _runs().filter(id__in=ids)}
    return RunPage([found[run_id] for run_id in ids if run_id in found], next_cursor)


def datasets_of(run_ids: Iterable[str]) -> list[tuple[str, str]]:
    """(run, snapshot) of runs without a job, as their process said; a job says it in its spec."""
    rows = Run.objects.filter(id__in=list(run_ids), job=None).exclude(lineage__dataset=None)
    return [(run, str(snapshot)) for run, snapshot in rows.values_list("id", "lineage__dataset")]


def using_datasets(snapshot_ids: Iterable[str]) -> list[tuple[str, str]]:
    """(run, snapshot) of runs without a job that say that they read one of these snapshots."""
    rows = Run.objects.filter(job=None, lineage__dataset__in=list(snapshot_ids))
    return list(rows.values_list("id", "lineage__dataset"))


def rows_of(run_ids: Iterable[str]) -> list[Run]:
    """With experiment and owner, also deleted ones: what came of them may still be in use."""
    return list(Run.objects.filter(id__in=list(run_ids)).select_related("experiment", "owner"))


def stored_files() -> list[Holding]:
    """The files and rich values of runs and logged models in the store."""
    of_run, of_model = RunFile.objects.filter(model=None), RunFile.objects.filter(run=None)
    values = RichValue.objects.filter(size__gt=0)
    sources = (
        (of_run, "run__experiment__team", "run", "created_ms"),
        (of_model, "model__experiment__team", "model__run", "created_ms"),
        (values, "run__experiment__team", "run", "at_ms"),
    )
    return [
        Holding(team, "run files", project or "", owner or "", Age(old), *sums)
        for rows, of_team, run, at_ms in sources
        for team, project, owner, old, *sums in rows.order_by()
        .values_list(of_team, f"{run}__job__project", f"{run}__owner__username", age(at_ms))
        .annotate(bytes=Sum("size", default=0), items=Count("id"))
    ]


def origin() -> Subquery:
    """The JSON {project, owner} of the newest run of a team that logged the files of a manifest."""
    rows = RunArtifact.objects.filter(manifest=OuterRef("id"), run__experiment__team=OuterRef("teams"))
    origins = rows.order_by("-created_ms").values(
        origin=JSONObject(project="run__job__project", owner="run__owner__username")
    )
    return Subquery(origins[:1])


def mfu_of_job(job_id: str) -> float | None:
    """Model FLOPs utilisation, 0 to 1; None where it was not measured."""
    return believable(Run.objects.filter(job=job_id).values_list("mfu", flat=True).first())


def deleted_before(before_ms: int) -> int:
    """How many runs were deleted before then, and can be restored until they are removed for good."""
    return Run.objects.filter(deleted_ms__lt=before_ms).count()


def datasets_read(experiment: Experiment, most: int) -> list[tuple[str, str, str | None]]:
    """Name, digest and context of the datasets that runs of an experiment read."""
    rows = RunDataset.objects.filter(run__experiment=experiment, run__deleted_ms=None)
    context = KeyTextTransform("mlflow.data.context", "tags")
    return list(rows.annotate(context=context).values_list("name", "digest", "context").distinct()[:most])
