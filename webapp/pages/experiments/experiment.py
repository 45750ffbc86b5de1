"""The page of one experiment: its table of runs, filtered, sorted, grouped, a stretch at a time, and their charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.views.decorators.http import require_GET

from platform_core.errors import TrainmasterError
from platform_core.experiments.comparison import differences, flatten, headline
from platform_core.experiments.names import is_metric
from platform_core.experiments.search import ATTRIBUTES
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.experiments import queries
from webapp.experiments.comparison import in_order
from webapp.experiments.models import Experiment, Run, SavedView
from webapp.experiments.queries import VIEWS
from webapp.experiments.saved_views import views_of
from webapp.metrics import queries as metrics
from webapp.pages import fragments
from webapp.pages.experiments import charts, columns, groups, run_table
from webapp.pages.experiments.charts import Label
from webapp.pages.experiments.columns import Column
from webapp.pages.experiments.groups import Groups
from webapp.pages.experiments.run_table import Row
from webapp.pages.experiments.selection import Selection, selected

ROWS = 50  # of one stretch
FIRST_METRICS, FIRST_PARAMETERS = 3, 4  # columns of a table that nobody has arranged
CHARTS = 6
CHARTED_RUNS, SELECTED_RUNS = 6, 20  # in the charts
NAMED_RUNS = 1_000  # whose names are offered: the newest


@dataclass(frozen=True, slots=True)
class Heading:
    column: Column
    order: str  # what the address says to sort by it, the other way round if it is so already
    sorted: str  # ascending, descending or ""


@dataclass(frozen=True, slots=True)
class Stretch:
    rows: Sequence[Row]
    first: int  # number of its first row in the table
    next: str  # the query of the next stretch; "" at the end


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Chooser:
    attributes: Sequence[Choice]
    metrics: Sequence[tuple[str, Sequence[Choice]]]
    parameters: Sequence[Choice]
    tags: Sequence[Choice]


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    experiment: Experiment
    may: dict[str, bool]  # edit, delete, share
    headline: Callable[[], str]
    total: Callable[[], int]  # of the runs of this view, without the filter
    selection: Selection
    problem: str  # of the filter
    chosen: Sequence[str]  # columns that the address names
    group: str
    group_choices: Callable[[], Sequence[Choice]]
    headings: Callable[[], Sequence[Heading]]
    stretch: Callable[[], Stretch]
    groups: Callable[[], Groups | None]
    chooser: Callable[[], Chooser]
    charts: Callable[[], Sequence[dict[str, Any]]]
    drawn: Callable[[], Sequence[tuple[Run, Label]]]  # the runs of the charts
    metrics: Callable[[], int]  # of the runs that are drawn
    compare: Callable[[], str]  # where all of their metrics are drawn
    charted: Callable[[], str]  # "of 3 selected runs"
    views: Callable[[], Sequence[SavedView]]
    query: str  # of this view, to save it


class Table:
    """The table that a query asks for; nothing is read before it is used."""

    def __init__(self, actor: Actor, experiment: Experiment, query: QueryDict) -> None:
        self.actor, self.query = actor, query
        view = query.get("view", "active")
        self.selection = Selection(
            experiment.team_id,
            experiment,
            filter=query.get("filter", ""),
            order=query.get("order", ""),
            view=view if view in VIEWS else "active",
        )
        self._page: queries.RunPage | None = None

    @property
    def page(self) -> queries.RunPage:
        if self._page is None:
            cursor = self.query.get("cursor", "")
            self._page = selected(self.actor, self.selection, limit=ROWS, cursor=cursor)
            queries.with_summaries(self._page.runs)
        return self._page

    def columns(self) -> list[Column]:
        return columns.columns(self.query.getlist("column")) or _by_default(self.page.runs)

    def headings(self) -> list[Heading]:
        return [self._heading(column) for column in self.columns()]

    def _heading(self, column: Column) -> Heading:
        name, _, direction = self.selection.order.rpartition(" ")
        if not column.order or name != column.order:
            order = f"{column.order} {column.best_first}" if column.order else ""
            return Heading(column, order, "")
        other = "desc" if direction == "asc" else "asc"
        return Heading(column, f"{name} {other}", "ascending" if direction == "asc" else "descending")

    def stretch(self) -> Stretch:
        shown = self.columns()
        first = whole_number(self.query.get("first", "") or "1", "first", 10**9)
        rows = run_table.rows(self.page.runs, shown, now_ms())
        return Stretch(rows, first, self._next(shown, first + len(rows)))

    def _next(self, shown: Sequence[Column], first: int) -> str:
        if self.page.next_cursor is None:
            return ""
        query = self.query.copy()
        for name in ("runs", "saved"):
            query.pop(name, None)
        query.setlist("column", [column.name for column in shown])
        query["cursor"], query["first"], query["block"] = self.page.next_cursor, str(first), "stretch"
        return query.urlencode()

    def charted(self) -> list[Run]:
        """The selected runs; without a selection the first of the table. Deleted ones have no curves."""
        ids = self.query.getlist("runs")[:SELECTED_RUNS]
        if not ids:
            return [run for run in self.page.runs if run.deleted_ms is None][:CHARTED_RUNS]
        experiment = self.selection.experiment
        return [run for run in queries.chosen(ids) if experiment and run.experiment_id == experiment.pk]


def _by_default(runs: Sequence[Run]) -> list[Column]:
    settings = [run.parameters for run in runs]
    params = [difference.name for difference in differences(settings)] if len(runs) > 1 else []
    params = params or sorted({name for each in settings for name in flatten(each)})
    return columns.by_default(params[:FIRST_PARAMETERS], _metrics_of(runs)[:FIRST_METRICS])


def _metrics_of(runs: Sequence[Run]) -> list[str]:
    """What the runs are judged by first."""
    keys = in_order({key for run in runs for key in run.summaries if is_metric(key)})
    best = headline(keys)
    return sorted(keys, key=lambda key: key != best)


@login_required
@require_GET
def detail(request: HttpRequest, experiment_id: int) -> HttpResponse:
    actor = actor_of(request)
    experiment = queries.find_experiment(actor, experiment_id, deleted=True)
    table = Table(actor, experiment, request.GET)
    problem = ""
    try:
        _ = table.page
    except TrainmasterError as error:
        problem = error.sentence
        table._page = queries.RunPage([], None)
    shown = table.selection
    page = ExperimentPage(
        experiment=experiment,
        may=_may(actor, experiment),
        headline=lambda: _headline(experiment, shown.view),
        total=lambda: queries.matching_runs(actor, experiments=[experiment.pk], view=shown.view).count(),
        selection=shown,
        problem=problem,
        chosen=request.GET.getlist("column"),
        group=request.GET.get("group", ""),
        group_choices=lambda: _group_choices(table),
        headings=table.headings,
        stretch=table.stretch,
        groups=lambda: (
            None if problem else groups.groups(actor, shown, request.GET.get("group", ""), table.columns())
        ),
        chooser=lambda: _chooser(experiment, table.columns()),
        charts=lambda: charts.of_runs(table.charted(), _metrics_of(table.charted())[:CHARTS]),
        drawn=lambda: _drawn(table.charted()),
        metrics=lambda: len(_metrics_of(table.charted())),
        compare=lambda: charts.comparison_of(table.charted()),
        charted=lambda: _charted(table, request.GET.getlist("runs")),
        views=lambda: views_of(actor, experiment),
        query=_saved_query(request.GET),
    )
    wrong = problem and request.GET.get("block") != "chooser"  # the columns can be chosen all the same
    return fragments.render(request, "experiments/detail.html", page, 422 if wrong else 200)


def _drawn(runs: Sequence[Run]) -> list[tuple[Run, Label]]:
    labels = charts.labels_of(runs)
    return [(run, labels[run.id]) for run in runs]


def _may(actor: Actor, experiment: Experiment) -> dict[str, bool]:
    team, owner = experiment.team_id, experiment.created_by
    edit = permissions.may(actor, "experiment.edit", team)
    name = owner.username if owner else None
    return {"edit": edit, "delete": permissions.may(actor, "experiment.delete", team, name)}


def _headline(experiment: Experiment, view: str) -> str:
    counts = dict(experiment.runs.filter(VIEWS[view]).order_by().values_list("state").annotate(Count("id")))
    states = [f"{counts[state]:,} {state}" for state in ("running", "pending", "failed") if counts.get(state)]
    return ", ".join([plural(sum(counts.values()), "run"), *states])


def _charted(table: Table, ids: Sequence[str]) -> str:
    count = len(table.charted())
    return f"{plural(count, 'selected run')}" if ids else f"the first {plural(count, 'run')} of the table"


def _group_choices(table: Table) -> list[Choice]:
    runs = table.page.runs
    names = [
        *groups.GROUPABLE,
        *sorted({f"params.{name}" for run in runs for name in flatten(run.parameters)})[:100],
        *sorted({f"tags.{name}" for run in runs for name in run.tags})[:100],
    ]
    chosen = table.query.get("group", "")
    return [Choice(name, _label(name), name == chosen) for name in names]


def _label(name: str) -> str:
    column = columns.column(name)
    return f"{column.label} ({column.under})" if column and column.under else column.label if column else name


def _chooser(experiment: Experiment, shown: Sequence[Column]) -> Chooser:
    chosen = {column.name for column in shown} | {
        f"{column.name}:{column.choice}" for column in shown if column.choice == "best"
    }
    names = _names(experiment)

    def choices(kind: str, keys: Sequence[str]) -> list[Choice]:
        return [Choice(f"{kind}.{key}", key, f"{kind}.{key}" in chosen) for key in keys]

    return Chooser(
        attributes=[Choice(each.name, each.label, each.name in chosen) for each in columns.attributes()],
        metrics=[
            (
                key,
                [
                    Choice(f"metrics.{key}:{choice}", choice, f"metrics.{key}:{choice}" in chosen)
                    for choice in columns.CHOICES_OF_METRIC
                ],
            )
            for key in names["metrics"]
        ],
        parameters=choices("params", names["params"]),
        tags=choices("tags", names["tags"]),
    )


def _names(experiment: Experiment) -> Mapping[str, list[str]]:
    """What the newest runs of an experiment have: parameters, metrics, tags."""
    rows = experiment.runs.filter(deleted_ms=None).order_by("-created_ms", "-id")[:NAMED_RUNS]
    runs = list(rows.values_list("id", "parameters", "tags"))
    return {
        "metrics": in_order(metrics.keys(run_id for run_id, _, _ in runs)),
        "params": sorted({name for _, parameters, _ in runs for name in parameters}),
        "tags": sorted({name for _, _, tags in runs for name in tags}),
    }


def _saved_query(query: QueryDict) -> str:
    kept = [
        (name, value)
        for name, values in query.lists()
        if name in ("filter", "order", "group", "view", "column")
        for value in values
        if value
    ]
    return urlencode(kept)


@login_required
@require_GET
def names(request: HttpRequest, experiment_id: int) -> JsonResponse:
    """What the filter box completes."""
    experiment = queries.find_experiment(actor_of(request), experiment_id, deleted=True)
    known = _names(experiment)
    fields = [
        f"{prefix}.{columns.quoted(key)}"
        for kind in ("metrics", "params", "tags")
        for prefix in ((kind, "lowest", "highest") if kind == "metrics" else (kind,))
        for key in known[kind]
    ]
    return JsonResponse({"names": [*ATTRIBUTES, *fields]})
