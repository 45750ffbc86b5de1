"""How experiments stand: their runs counted, and the best of them, without reading the summaries of all runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Max, Q, QuerySet, Value, Window
from django.db.models.functions import Coalesce, RowNumber

from platform_core.experiments.comparison import direction, headline, rule_of
from platform_core.experiments.names import is_metric, is_own_tag
from platform_core.experiments.sections import in_order
from platform_core.experiments.states import RunState
from webapp.experiments.models import Experiment, Run
from webapp.experiments.queries import VIEWS
from webapp.metrics import queries as metrics

NEWEST = 10  # runs with metrics, whose metrics and tags stand for those of the experiment


_UNUSED = ("lineage", "parameters", "description")


@dataclass(frozen=True, slots=True)
class BestRun:
    run: Run
    metric: str
    rule: str  # see `rule_of`
    value: float


@dataclass(frozen=True, slots=True)
class Standing:
    runs: int
    running: int
    changed_ms: int  # when any of its runs last reported or ended, or it was made
    jobs: Sequence[str]  # ids of the runs that are of a job
    tags: Sequence[str]  # names, of the newest runs
    best: BestRun | None  # by the headline metric of the newest runs; None while none has reported one


def standings(experiments: Sequence[Experiment]) -> dict[int, Standing]:
    """By the id of the experiment; of the runs that are neither archived nor deleted."""
    ids = [experiment.pk for experiment in experiments]
    living = Run.objects.filter(VIEWS["active"], experiment__in=ids)
    counted = {row["experiment_id"]: row for row in _counted(living)}
    newest = _newest(living)
    best = _best(living, _headlines(newest))
    result = {}
    for experiment in experiments:
        row = counted.get(experiment.pk, {})
        result[experiment.pk] = Standing(
            runs=row.get("runs", 0),
            running=row.get("running", 0),
            changed_ms=row.get("changed", experiment.created_ms),
            jobs=row.get("jobs", ()),
            tags=sorted(
                {tag for run in newest.get(experiment.pk, ()) for tag in run.tags if is_own_tag(tag)}
            ),
            best=best.get(experiment.pk),
        )
    return result


def _counted(living: QuerySet[Run]) -> Iterable[Mapping[str, Any]]:
    return (
        living.order_by()
        .values("experiment_id")
        .annotate(
            runs=Count("id"),
            running=Count("id", filter=Q(state=RunState.RUNNING)),
            changed=Max(Coalesce("ended_ms", "reported_ms", "created_ms")),
            jobs=ArrayAgg("job_id", filter=Q(job__isnull=False), default=Value([])),
        )
    )


def _newest(living: QuerySet[Run]) -> dict[int, list[Run]]:
    place = Window(RowNumber(), "experiment_id", [F("created_ms").desc(), F("id").desc()])
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in metrics.reporting(living.defer(*_UNUSED)).annotate(place=place).filter(place__lte=NEWEST):
        runs[run.experiment_id].append(run)
    return runs


def _headlines(newest: Mapping[int, Sequence[Run]]) -> dict[int, str]:
    keys = metrics.keys_of(run.id for runs in newest.values() for run in runs)
    return {
        experiment_id: headline(in_order({key for run in runs for key in keys[run.id] if is_metric(key)}))
        for experiment_id, runs in newest.items()
    }


def _best(living: QuerySet[Run], keys: Mapping[int, str]) -> dict[int, BestRun]:
    """A headline metric has a direction: the best is the least or the greatest value of any run."""
    sharing: dict[str, list[int]] = defaultdict(list)
    for experiment_id, key in keys.items():
        if key:
            sharing[key].append(experiment_id)
    best = {}
    for key, ids in sharing.items():
        lowest = direction(key) < 0
        rows = metrics.with_metric(living.filter(experiment__in=ids), key, field="min" if lowest else "max")
        order = F("metric").asc() if lowest else F("metric").desc()
        rows = rows.filter(metric__isnull=False).order_by("experiment_id", order, "id")
        for run in rows.defer(*_UNUSED).distinct("experiment_id"):
            best[run.experiment_id] = BestRun(run, key, rule_of(key), run.metric)
    return best
