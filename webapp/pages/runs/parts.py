"""The tabs of a run: shared by the page of a run and by the page of the job that a run is of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict

from platform_core.experiments import names
from platform_core.experiments.comparison import flatten
from platform_core.experiments.sections import in_sections
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.experiments.comparison import in_order, metric_names
from webapp.experiments.models import Run
from webapp.pages.experiments import charts
from webapp.pages.experiments.run_table import text_of
from webapp.pages.runs import efficiency, files, lineage, media

FIRST_CHARTS = 5


@dataclass(frozen=True, slots=True)
class May:
    edit: bool
    delete: bool


@dataclass(frozen=True, slots=True)
class NotesPart:
    """What people gave the run: description, tags, parameters."""

    parameters: Sequence[tuple[str, str]]
    tags: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class FirstCharts:
    """For the overview: what people look at first."""

    shown: Sequence[dict[str, Any]]
    metrics: int  # of the run, all of them drawn on the tab of charts


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    charts: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ChartsPart:
    sections: Sequence[Section]
    is_system: bool

    @property
    def count(self) -> int:
        return sum(len(section.charts) for section in self.sections)


_ACRONYMS = {
    "cpu": "CPU",
    "gpu": "GPU",
    "rss": "RSS",
    "sm": "SM",
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "ecc": "ECC",
}


def may_of(actor: Actor, run: Run) -> May:
    team = run.experiment.team_id
    return May(
        edit=permissions.may(actor, "experiment.edit", team),
        delete=permissions.may(actor, "experiment.delete", team, run.owner_name or None),
    )


def notes(run: Run) -> NotesPart:
    return NotesPart(
        parameters=[(name, text_of(value) or "") for name, value in sorted(flatten(run.parameters).items())],
        tags=sorted(run.tags.items()),
    )


def first_charts(run: Run) -> FirstCharts:
    keys = metric_names([run])
    return FirstCharts(charts.of_runs([run], keys[:FIRST_CHARTS]), len(keys))


def charts_of(run: Run, *, is_system: bool) -> ChartsPart:
    keys = [
        key
        for key in in_order(run.summaries)
        if names.is_system(key) == is_system and not names.is_of_rank(key)
    ]
    return ChartsPart(
        [
            Section(name, [_titled(chart, name, is_system) for chart in charts.of_runs([run], members)])
            for name, members in sections(keys, is_system)
        ],
        is_system,
    )


def _titled(chart: dict[str, Any], section: str, is_system: bool) -> dict[str, Any]:
    """Series of the machine without what the heading above them says."""
    if not is_system:
        return chart
    last = chart["key"].removeprefix(names.SYSTEM).removeprefix(f"{section}/")
    words = " ".join(_ACRONYMS.get(word, word) for word in last.replace("_bytes", "").split("_"))
    return chart | {"title": words[:1].upper() + words[1:]}


def sections(keys: Sequence[str], is_system: bool) -> list[tuple[str, Sequence[str]]]:
    """Metrics by the prefix of their names; those of the machine by what they measure."""
    if not is_system:
        return [(section.name, section.keys) for section in in_sections(keys)]
    grouped: dict[str, list[str]] = {}
    for key in keys:
        grouped.setdefault(key.removeprefix(names.SYSTEM).rpartition("/")[0], []).append(key)
    return sorted(grouped.items())


# A tab and what its template shows as `part`. A function is called when the template first uses it.
_PARTS: Mapping[str, Callable[[Actor, Run, QueryDict], object]] = {
    "notes": lambda actor, run, query: notes(run),
    "charts": lambda actor, run, query: charts_of(run, is_system=False),
    "system": lambda actor, run, query: charts_of(run, is_system=True),
    "efficiency": lambda actor, run, query: efficiency.part(run),
    "artifacts": lambda actor, run, query: files.part(
        actor, run, query.get("file", ""), query.get("folder", "")
    ),
    "media": lambda actor, run, query: media.part(actor, run, query),
    "lineage": lambda actor, run, query: lineage.part(actor, run),
}
LABELS = {
    "charts": "Charts",
    "system": "System",
    "efficiency": "Efficiency",
    "artifacts": "Artifacts",
    "media": "Media",
    "notes": "Notes and parameters",
    "lineage": "Lineage",
}
TEMPLATES = {tab: f"runs/{tab}.html" for tab in _PARTS} | {"system": "runs/charts.html"}


def context(request: HttpRequest, run: Run, tab: str, layout: str) -> dict[str, Any]:
    """What the template of a tab needs beside the head of its page; `layout` is the template of that page."""
    actor = actor_of(request)
    return {
        "layout": layout,
        "shown_run": run,
        "may_run": may_of(actor, run),
        "part": lambda: _PARTS[tab](actor, run, request.GET),
    }
