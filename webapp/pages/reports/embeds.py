"""What the blocks of a report show: charts, tables and images of the runs of the report's team."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponseBase
from django.urls import reverse

from platform_core.errors import TrainmasterError
from platform_core.experiments.comparison import headline
from platform_core.experiments.names import is_metric
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.experiments import queries as experiments
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.pages.experiments import charts, columns, run_table
from webapp.pages.experiments.charts import Drawing
from webapp.pages.experiments.columns import Column
from webapp.pages.experiments.run_table import Row
from webapp.pages.experiments.selection import Selection, selected
from webapp.pages.reports import document
from webapp.pages.reports.document import Embed, Prose
from webapp.pages.runs import files

MOST_RUNS = {"chart": 20, "runs": 100}
RUNS = {"chart": 10, "runs": 20}  # without a line `most`
MOST_NAMED = 6  # metrics, in a sentence


@dataclass(frozen=True, slots=True)
class Chart:
    number: int
    id: str
    title: str
    fetched: dict[str, Any]  # see templates/parts/chart.html
    subjects: str  # of the live socket
    runs: int


@dataclass(frozen=True, slots=True)
class Table:
    number: int
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    has_links: bool  # to the pages of the runs


@dataclass(frozen=True, slots=True)
class Image:
    number: int
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Refused:
    number: int
    kind: str
    sentence: str


Shown = Chart | Table | Image | Refused


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two."""

    prose: Prose | None = None
    embed: Shown | None = None

    @property
    def kind(self) -> str:
        return type(self.embed).__name__.lower()


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the values of a block are read from."""

    chart: Callable[[Embed, Sequence[Run]], str]
    image: Callable[[Embed], str]
    for_members: bool


def _member_chart(embed: Embed, runs: Sequence[Run]) -> str:
    (chart,) = charts.of_runs(runs, [embed.options["metric"]], Drawing(x=embed.options.get("x", "step")))
    return str(chart["url"])


def _member_image(embed: Embed) -> str:
    return reverse("runs:image", args=[embed.options["run"], embed.options["file"]])


for_members = Addresses(_member_chart, _member_image, True)


def for_link(token: str) -> Addresses:
    return Addresses(
        lambda embed, runs: reverse("reports:shared-chart", args=[token, embed.number]),
        lambda embed: reverse("reports:shared-image", args=[token, embed.number]),
        False,
    )


def shown(team: str, text: str, addresses: Addresses) -> list[Part]:
    """Everything that the report shows, in order. A block that cannot be shown says why in its place."""
    return [
        Part(prose=part) if isinstance(part, Prose) else Part(embed=_shown(team, part, addresses))
        for part in document.parts(text)
    ]


def _shown(team: str, embed: Embed, addresses: Addresses) -> Shown:
    if embed.problem:
        return Refused(embed.number, embed.kind, embed.problem)
    try:
        return _KINDS[embed.kind](team, embed, addresses)
    except TrainmasterError as error:
        return Refused(embed.number, embed.kind, error.sentence)


def _chart(team: str, embed: Embed, addresses: Addresses) -> Shown:
    metric = embed.options["metric"]
    runs = _runs(team, embed)
    if not runs:
        return Refused(embed.number, embed.kind, "No run matches this filter.")
    known = metrics.keys(run.id for run in runs)
    if metric not in known:
        return Refused(embed.number, embed.kind, _without(metric, known))
    fetched = {
        "key": metric,
        "url": addresses.chart(embed, runs),
        "weight": embed.options.get("smooth", "0"),
        "scale": embed.options.get("scale", "linear"),
    }
    subjects = " ".join(f"run:{run.id}" for run in runs) if addresses.for_members else ""
    return Chart(
        embed.number,
        f"embed-{embed.number}",
        embed.options.get("title") or metric,
        fetched,
        subjects,
        len(runs),
    )


def _without(metric: str, known: Sequence[str]) -> str:
    reported = [key for key in known if is_metric(key)]
    more = f" and {len(reported) - MOST_NAMED} more" if len(reported) > MOST_NAMED else ""
    others = f"; reported are {', '.join(reported[:MOST_NAMED])}{more}" if reported else ""
    return f"No run of this filter has reported {metric}{others}."


def example_metric(team: str) -> str:
    """By which the newest runs of the team are judged, for a text to begin with."""
    runs = selected(_reader(team), Selection(team, filter='state = "succeeded"'), limit=RUNS["chart"]).runs
    return headline(metrics.keys(run.id for run in runs)) or "loss"


def _table(team: str, embed: Embed, addresses: Addresses) -> Shown:
    chosen = columns.columns(embed.options.get("columns", "state").split(","))
    rows = run_table.rows(experiments.with_summaries(_runs(team, embed)), chosen, now_ms())
    return Table(embed.number, embed.options.get("title", ""), chosen, rows, addresses.for_members)


def _image(team: str, embed: Embed, addresses: Addresses) -> Shown:
    files.require_image(_reader(team), _run(team, embed), embed.options["file"])
    return Image(embed.number, embed.options.get("title") or embed.options["file"], addresses.image(embed))


_KINDS = {"chart": _chart, "runs": _table, "image": _image}


def chart_values(team: str, embed: Embed) -> dict[str, Any]:
    """As the pages read the curves of runs, without what leads to the runs."""
    chart = charts.values(_runs(team, embed), embed.options["metric"], embed.options.get("x", "step"))
    series = [{**line, "run": "", "subject": ""} for line in chart["series"]]
    return {"charts": [{**chart, "series": series}]}


def image_response(team: str, embed: Embed) -> HttpResponseBase:
    return files.image_response(_reader(team), _run(team, embed), embed.options["file"])


def _reader(team: str) -> Actor:
    """A report shows the runs of its team, whoever reads it."""
    return Actor("", {team: Role.VIEWER})


def _runs(team: str, embed: Embed) -> list[Run]:
    options, reader = embed.options, _reader(team)
    try:
        most = int(options.get("most") or RUNS[embed.kind])
    except ValueError:
        raise TrainmasterError(
            "request_invalid", what="most", why=f"{options['most'][:40]!r} is not a number"
        ) from None
    limit = max(1, min(MOST_RUNS[embed.kind], most))
    name = options.get("experiment")
    experiment = experiments.find_experiment(reader, name, team=team) if name else None
    selection = Selection(team, experiment, filter=options.get("runs", ""), order=options.get("order", ""))
    return selected(reader, selection, limit=limit).runs


def _run(team: str, embed: Embed) -> Run:
    return experiments.find_run(_reader(team), embed.options["run"])
