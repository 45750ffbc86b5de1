"""The submit page: a form that says at each change what the platform thinks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.jobs.spec import SpecError, given, parse
from platform_core.parallelism.job_plan import Estimate
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import archives
from webapp.base.identity import new_id
from webapp.experiments import predictions
from webapp.jobs import queries, services
from webapp.jobs.models import Job
from webapp.pages import fragments
from webapp.pages.jobs import choices, forms, verdict
from webapp.pages.jobs.choices import Preset
from webapp.pages.jobs.forms import Control, Option, Section
from webapp.pages.jobs.verdict import Verdict
from webapp.scheduling import dry_run
from webapp.scheduling.dry_run import Outlook
from webapp.sweeps import queries as sweeps

_TEMPLATE = "jobs/submit.html"


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page. `verdict` is fetched once it is shown, and at each change."""

    controls: Mapping[str, Control]
    sections: Sequence[Section]
    problems: Mapping[str, str]  # by the names of the controls; "" is none of them
    cloned: Job | None
    presets: Sequence[Preset]
    recent: Sequence[Option]
    secret_names: Sequence[str]
    key: str  # the idempotency key of this form
    verdict: None = None
    outlook: None = None
    estimate: None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The panel beside the form: the verdict; then the outlook of a job that would wait, and the planner's estimate of
    one that says what it trains."""

    verdict: Callable[[], Verdict]
    outlook: Callable[[], Outlook | None]
    estimate: Callable[[], Estimate | None]
    has_shape: bool
    job_file: str
    command_line: str


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    actor = _submitter(request)
    if request.method == "GET":
        form, cloned = _start(request, actor)
        return fragments.render(request, _TEMPLATE, _page(actor, form, cloned))
    form = request.POST.dict()
    clone = form.get("clone", "")
    cloned = queries.job_for(request, clone) if clone else None
    try:
        spec = parse(_mapping(actor, form), forms.quoted(form.get("gpu_type", "")))
        job, new = services.accept(actor, spec, idempotency_key=form.get("key") or None, cloned_from=clone)
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
    except TrainmasterError as error:
        problems = {verdict.field_of(error): error.sentence}
    else:
        messages.success(request, f"{job.name} was submitted{'' if new else ' before'}.")
        return redirect("jobs:detail", job_id=job.id)
    page = _page(actor, form, cloned, forms.problems_in_page(problems))
    return fragments.render(request, _TEMPLATE, page, status=422)


@login_required
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """The verdict on the form as it stands, with its job file; then when the job would start."""
    actor, form = accounts.actor_of(request), request.POST.dict()
    mapping = _mapping(actor, form)
    job_file = _job_file(mapping)
    panel = Check(
        verdict=lambda: verdict.judge(actor, mapping, form),
        outlook=lambda: _outlook(actor, mapping),
        estimate=lambda: _estimate(mapping),
        has_shape="transformer" in given(mapping),
        job_file=job_file,
        command_line=f"cat > job.yaml <<'EOF'\n{job_file}EOF\ntrainmaster submit job.yaml",
    )
    asked = request.GET.get("block", "")
    block = asked if asked in ("outlook", "estimate") else "check"
    context = fragments.when_asked(fragments.values_of(panel))
    return HttpResponse(fragments.render_block(request, _TEMPLATE, block, context))


@login_required
@require_POST
def code(request: HttpRequest) -> HttpResponse:
    """Take an archive of code into the team that the form names, and choose it in the form."""
    actor, form, problems = _submitter(request), request.POST.dict(), {}
    archive = request.FILES.get("archive")
    try:
        if archive is None:
            raise TrainmasterError("request_invalid", what="the archive", why="choose a zip or tar file")
        form["code"] = archives.upload(actor, form.get("team", ""), str(archive.name), archive)
    except TrainmasterError as error:
        problems = {"code": error.sentence}
    return fragments.render(
        request, _TEMPLATE, _page(actor, form, None, problems), status=422 if problems else 200
    )


def _submitter(request: HttpRequest) -> Actor:
    """Whoever may submit for some team. An admin may for every team, also before there is one: the form says so."""
    actor = accounts.actor_of(request)
    if not actor.is_admin and not _teams(actor):
        raise TrainmasterError(
            "not_allowed", what="submit jobs", whom="a lead, who can add you to a team as member"
        )
    return actor


def _teams(actor: Actor) -> list[str]:
    return choices.teams(actor, (team.slug for team in accounts.teams(actor.sees)))


def _start(request: HttpRequest, actor: Actor) -> tuple[dict[str, str], Job | None]:
    """An empty form, or an earlier job to edit; with what the address says differently."""
    changes = {name: request.GET[name] for name in ("team", *forms.CHANGEABLE) if name in request.GET}
    clone = request.GET.get("clone", "")
    if not clone:
        return changes, None
    job = queries.job_for(request, clone)
    left_out = sweeps.tags_of_trials_job(job.id)
    spec = {**job.spec, "tags": [tag for tag in job.spec.get("tags") or () if tag not in left_out]}
    form = forms.form_of(spec) | changes
    names = {id: name for name, id in _dataset_ids(actor).items()}
    return form | {"dataset": names.get(form.get("dataset", ""), form.get("dataset", ""))}, job


def _page(
    actor: Actor, form: Mapping[str, str], cloned: Job | None, problems: Mapping[str, str] | None = None
) -> Page:
    teams = _teams(actor)
    missing_team = {} if teams else {"team": "There is no team yet. Make one in the administration first."}
    problems = problems or missing_team
    controls = forms.controls(form, problems, choices.options(actor, teams))
    return Page(
        controls=controls,
        sections=forms.sections(controls),
        problems=problems,
        cloned=cloned,
        presets=choices.presets(),
        recent=choices.recent(teams),
        secret_names=sorted({secret.name for team in teams for secret in accounts.secrets(team)}),
        key=new_id("key"),
    )


def _mapping(actor: Actor, form: Mapping[str, str]) -> dict[str, Any]:
    """The form's job file; a dataset that it calls by its name has its id there."""
    mapping = forms.mapping_of(form)
    if dataset := mapping.get("dataset"):
        mapping["dataset"] = _dataset_ids(actor).get(dataset, dataset)
    return mapping


def _dataset_ids(actor: Actor) -> dict[str, str]:
    return choices.dataset_ids(choices.datasets_of(actor, _teams(actor)))


def _job_file(mapping: Mapping[str, Any]) -> str:
    fields = given(mapping)
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)) if fields else ""


def _outlook(actor: Actor, mapping: Mapping[str, Any]) -> Outlook | None:
    """None for what the verdict refuses anyway."""
    try:
        return dry_run.outlook(dry_run.allowed(actor, parse(mapping)), actor.username)
    except (SpecError, TrainmasterError):
        return None


def _estimate(mapping: Mapping[str, Any]) -> Estimate | None:
    """Also of a job that has no name yet; None where what it trains is not told, or not soundly."""
    try:
        return predictions.estimate_of(parse({"name": "-", "team": "-", "command": "-", **mapping}))
    except SpecError:
        return None
