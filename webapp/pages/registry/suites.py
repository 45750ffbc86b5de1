"""The page of evaluation suites: the newest version of each, and the form that publishes another."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as job_specs
from platform_core.jobs.reader import SpecError
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.datasets import queries as datasets
from webapp.evaluations import queries, services
from webapp.evaluations.models import Suite
from webapp.pages import fragments

NOT_IN_A_FILE = ("purpose", "experiment")  # the platform sets them
EXAMPLE = {
    "name": "held-out", "team": "", "code": "man-…", "command": "python evaluate.py", "gpu_type": "cpu",
    "dataset": "ds-…", "metrics": {"accuracy": "higher"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SuiteRow:
    suite: Suite
    command: str
    dataset: str  # as people call it
    dataset_id: str
    slots: str
    metrics: tuple[tuple[str, str], ...]
    text: str  # its file, as JSON


@dataclass(frozen=True, slots=True)
class SuitesPage:
    suites: tuple[SuiteRow, ...]
    may_publish: bool
    text: str  # of the form: an example, or what was refused
    problems: Mapping[str, str]


@login_required
@require_GET
def suite_list(request: HttpRequest) -> HttpResponse:
    return _list(request)


@login_required
@require_POST
def publish(request: HttpRequest) -> HttpResponse:
    text = request.POST.get("file", "")
    try:
        row, new = services.publish(actor_of(request), _mapping(text))
    except SpecError as error:
        return _list(request, text, {problem.field: problem.sentence for problem in error.problems})
    except TrainmasterError as error:
        if error.code not in ("request_invalid", "stale_version"):
            raise
        return _list(request, text, {"": error.sentence})
    messages.success(request, f"{row} is {'published' if new else 'the newest version already'}.")
    return redirect("registry:suites")


def _mapping(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TrainmasterError("request_invalid", what="the suite", why=f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise TrainmasterError("request_invalid", what="the suite", why="it must be an object of JSON")
    return given


def _list(request: HttpRequest, text: str = "", problems: Mapping[str, str] | None = None) -> HttpResponse:
    actor = actor_of(request)
    rows = queries.suites(actor.sees)
    names = datasets.names(row.spec["job"]["dataset"] for row in rows)
    teams = [
        view.slug for view in team_views(actor.sees) if permissions.may(actor, "suite.publish", view.slug)
    ]
    page = SuitesPage(
        suites=tuple(_row(row, names) for row in rows),
        may_publish=bool(teams),
        text=text or _written({**EXAMPLE, "team": teams[0] if teams else ""}),
        problems=problems or {},
    )
    return fragments.render(request, "registry/suites.html", page, status=422 if problems else 200)


def _row(row: Suite, names: Mapping[str, str]) -> SuiteRow:
    job, metrics = row.spec["job"], row.spec["metrics"]
    fields = {key: value for key, value in job_specs.given(job).items() if key not in NOT_IN_A_FILE}
    return SuiteRow(
        row,
        command=" ".join(job["command"]),
        dataset=names.get(job["dataset"], job["dataset"]),
        dataset_id=job["dataset"],
        slots=f"{job['num_gpus']} × {job['gpu_type']}",
        metrics=tuple(sorted(metrics.items())),
        text=_written({**fields, "metrics": metrics}),
    )


def _written(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, indent=2, ensure_ascii=False)
