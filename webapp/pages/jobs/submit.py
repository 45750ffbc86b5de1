"""The submit page: a form that says at each change what the platform thinks of it."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.jobs.script import missing_script
from platform_core.jobs.spec import JobSpec, SpecError, Strategy, parse
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import new_id
from webapp.datasets import queries as datasets
from webapp.jobs import queries, services
from webapp.nodes import queries as clusters
from webapp.pages import fragments
from webapp.pages.jobs import checkpoints, forms, presentation
from webapp.quotas import queries as quotas
from webapp.scheduling import dry_run
from webapp.scheduling.dry_run import Outlook


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    actor = _submitter(request)
    if request.method == "GET":
        return fragments.render(request, "jobs/submit.html", _page(request, actor, *_start(request, actor)))
    form = request.POST.dict()
    clone = form.get("clone", "")
    cloned = queries.job_for(request, clone) if clone else None
    problems: dict[str, str]
    try:
        key = form.get("key") or None
        job, new = services.submit(actor, forms.mapping_of(form), idempotency_key=key, cloned_from=clone)
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
    except TrainmasterError as error:
        problems = {"gpu_type" if error.code == "quota_exceeded" else "": error.sentence}
    else:
        messages.success(request, f"{job.name} was submitted{'' if new else ' before'}.")
        return redirect("jobs:detail", job_id=job.id)
    values = {**form, "preemptible": "preemptible" in form}
    context = _page(request, actor, values, cloned) | {
        "problems": _named(problems),
        "check": _check(actor, form),
    }
    return fragments.render(request, "jobs/submit.html", context, status=422)


@login_required
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """The panel beside the form: quota left, cost, and why it would wait; then when it would start."""
    actor, form = accounts.actor_of(request), request.POST.dict()
    context = {"check": lambda: _check(actor, form), "outlook": lambda: _outlook(actor, form)}
    return fragments.render(request, "jobs/submit.html", context)


def _submitter(request: HttpRequest) -> Actor:
    """Whoever may submit for some team. An admin may for every team, also before there is one: the form says so."""
    actor = accounts.actor_of(request)
    if not actor.is_admin and not _teams(actor):
        raise TrainmasterError(
            "not_allowed", what="submit jobs", whom="a lead, who can add you to a team as member"
        )
    return actor


def _teams(actor: Actor) -> list[str]:
    return [
        view.slug for view in accounts.teams(actor.sees) if permissions.may(actor, "job.submit", view.slug)
    ]


def _start(request: HttpRequest, actor: Actor) -> tuple[dict[str, Any], Any]:
    """What the form begins with: the defaults, or an old job to edit."""
    clone = request.GET.get("clone", "")
    if not clone:
        first = {"team": request.GET.get("team", ""), "gpu_type": request.GET.get("gpu_type", "")}
        return forms.DEFAULTS | first, None
    job = queries.job_for(request, clone)
    values = forms.values_of(parse(job.spec)) | {
        name: request.GET[name] for name in forms.CHANGEABLE if name in request.GET
    }
    if resume := request.GET.get("resume_from", ""):
        values["resume_from"] = resume
    return values, job


def _page(request: HttpRequest, actor: Actor, values: dict[str, Any], cloned: Any) -> dict[str, Any]:
    teams = _teams(actor)
    problems = {} if teams else {"team": "There is no team yet. Make one in the administration first."}
    snapshots = datasets.snapshots(team for team in teams if permissions.may(actor, "dataset.view", team))
    secret_names = sorted({secret.name for team in teams for secret in accounts.secrets(team)})
    return {
        "values": values,
        "problems": problems,
        "cloned": {"id": cloned.id, "name": cloned.name} if cloned else None,
        "teams": teams,
        "gpu_types": [
            {"slug": slug, "free": capacity.free, "slots": capacity.slots}
            for slug, capacity in clusters.capacity().items()
        ],
        "strategies": [strategy.value for strategy in Strategy],
        "secret_names": secret_names,
        "codes": [{"id": row.manifest_id, "label": row.name or row.id} for row in artifacts.bundles(teams)],
        "datasets": [
            {"id": row.id, "label": f"{row.name} v{row.version} ({row.purpose})"} for row in snapshots
        ],
        "key": new_id("key"),
        "check": None,
        **checkpoints.choices(teams),
    }


def _outlook(actor: Actor, form: dict[str, str]) -> Outlook | None:
    """None for what the panel refuses anyway."""
    try:
        return dry_run.outlook(dry_run.allowed(actor, forms.mapping_of(form)), actor.username)
    except (SpecError, TrainmasterError):
        return None


def _check(actor: Actor, form: dict[str, str]) -> dict[str, Any]:
    try:
        spec = dry_run.allowed(actor, forms.mapping_of(form))
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
        headline = "Not complete yet" if len(problems) == 1 else f"{len(problems)} things to fill in or mend"
        return _judged(form, "bad", headline, problems)
    except TrainmasterError as error:
        return _judged(form, "bad", error.sentence, {})
    return _forecast(actor, spec, form)


def _forecast(actor: Actor, spec: JobSpec, form: dict[str, str]) -> dict[str, Any]:
    queued = queries.queued_gpus(spec.team, spec.gpu_type)
    refused = dry_run.refusal(spec, queued)
    if refused:
        judged = _judged(form, "bad", "It would be refused", {"gpu_type": refused})
    else:
        waits = dry_run.why_it_would_wait(spec, actor.username)
        waits = queries.calling_by_names([waits], actor.sees)(waits)
        headline = "It would wait" if waits else "It would start at once"
        judged = _judged(form, "wait" if waits else "ok", headline, {}, waits)
    if missing := "" if spec.code else missing_script(spec.command, None):
        judged |= {"state": "bad", "problems": judged["problems"] | {"command": missing}}
    judged["quota"] = _quota(spec, queued)
    judged["cost_hour"] = presentation.cost_per_hour(spec.gpu_type, spec.num_gpus)
    judged["cost_limit"] = judged["cost_hour"] * spec.max_runtime_ms // 3_600_000
    return judged


def _judged(
    form: dict[str, str], state: str, headline: str, problems: dict[str, str], waits: str = ""
) -> dict[str, Any]:
    gpus = forms.number(form.get("num_gpus", "") or "0")
    known = gpus if isinstance(gpus, int) and 0 < gpus <= 10_000 else 0
    return {
        "state": state,
        "headline": headline,
        "problems": _named(problems),
        "waits": waits,
        "asked": new_id("ask"),
        "quota": None,
        "cost_hour": presentation.cost_per_hour(form.get("gpu_type", ""), known),
        "cost_limit": None,
    }


def _quota(spec: JobSpec, queued: int) -> dict[str, Any] | None:
    limits = quotas.limits(spec.team, spec.gpu_type)
    if limits is None:
        return None
    held = quotas.held(spec.team, spec.gpu_type)
    return {
        "gpu_type": spec.gpu_type, "team": spec.team, "held": held, "queued": queued, "asked": spec.num_gpus,
        "maximum": limits.maximum, "left": max(0, limits.maximum - held - queued),
    }  # fmt: skip


def _named(problems: dict[str, str]) -> dict[str, str]:
    """Problems under the names of the form's fields: `checkpoint.path` is `checkpoint_path` there."""
    return {field.replace(".", "_"): sentence for field, sentence in problems.items()}
