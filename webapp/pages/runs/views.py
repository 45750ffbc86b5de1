"""The page of a run that has no job, and what people do with any run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from platform_core.units import plural
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.experiments import queries, services
from webapp.experiments.models import Run
from webapp.experiments.runs import RunChanges
from webapp.pages import fragments
from webapp.pages.runs import lineage, parts
from webapp.pages.runs.lineage import Fact

LAYOUT = "runs/layout.html"
TABS = {"overview": "Overview"} | {tab: parts.LABELS[tab] for tab in parts.LABELS if tab != "notes"}


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    label: str
    address: str


@dataclass(frozen=True, slots=True)
class RunPage:
    run: Run
    tab: str
    tabs: Sequence[Tab]
    duration_ms: int | None  # of one that has ended
    facts: Callable[[], Sequence[Fact]]
    notes: Callable[[], parts.NotesPart]
    first_charts: Callable[[], parts.FirstCharts]


@login_required
@require_GET
def detail(request: HttpRequest, run_id: str) -> HttpResponse:
    actor = actor_of(request)
    run = queries.find_run(actor, run_id, deleted=True)
    if run.job_id and run.deleted_ms is None:
        return redirect(page_of(run, request.GET.get("tab", "")))
    return show(request, actor, run)


def page_of(run: Run, tab: str = "") -> str:
    """A run of a job is shown on the page of its job."""
    address = reverse("jobs:detail" if run.job_id else "runs:detail", args=[run.id])
    return f"{address}?{urlencode({'tab': tab})}" if tab else address


def show(request: HttpRequest, actor: Actor, run: Run) -> HttpResponse:
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS and run.deleted_ms is None else "overview"
    page = RunPage(
        run=run,
        tab=tab,
        tabs=[Tab(name, label, _address(run, name)) for name, label in TABS.items()],
        duration_ms=run.ended_ms - run.started_ms if run.ended_ms and run.started_ms else None,
        facts=lambda: lineage.facts(run),
        notes=lambda: parts.notes(run),
        first_charts=lambda: parts.first_charts(run),
    )
    template = parts.TEMPLATES.get(tab, "runs/overview.html")
    context = {**fragments.values_of(page), **parts.context(request, run, tab, LAYOUT)}
    return fragments.render(request, template, context)


def _address(run: Run, tab: str) -> str:
    address = reverse("runs:detail", args=[run.id])
    return address if tab == "overview" else f"{address}?tab={tab}"


@login_required
@require_POST
def edit(request: HttpRequest, run_id: str) -> HttpResponse:
    """Changes those of name, description and group that the form has."""
    actor, run = _asked_for(request, run_id)
    given: RunChanges = {}
    for name in ("name", "description", "group"):
        if name in request.POST:
            given[name] = request.POST[name]
    return _carry_out(request, run, lambda: services.update_run(actor, run, **given), "Run changed.")


@login_required
@require_POST
def tag(request: HttpRequest, run_id: str) -> HttpResponse:
    actor, run = _asked_for(request, run_id)
    if name := request.POST.get("delete", ""):
        return _carry_out(
            request, run, lambda: services.delete_tags(actor, run, [name]), f"Tag {name} removed."
        )
    name, value = parse_tag(request.POST.get("tag", ""))
    return _carry_out(request, run, lambda: services.set_tags(actor, run, {name: value}), f"Tag {name} set.")


def parse_tag(text: str) -> tuple[str, str]:
    """A tag as people write it: "stage = prod", or a name alone."""
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


@login_required
@require_POST
def archive(request: HttpRequest, run_id: str) -> HttpResponse:
    actor, run = _asked_for(request, run_id)
    return _carry_out(
        request, run, lambda: services.archive_runs(actor, [run.id]), "Run archived: lists leave it out."
    )


@login_required
@require_POST
def restore(request: HttpRequest, run_id: str) -> HttpResponse:
    actor, run = _asked_for(request, run_id)
    return _carry_out(request, run, lambda: services.restore_runs(actor, [run.id]), "Run restored.")


@login_required
@require_POST
def delete(request: HttpRequest, run_id: str) -> HttpResponse:
    actor, run = _asked_for(request, run_id)
    return _carry_out(request, run, lambda: services.delete_runs(actor, [run.id]), "Run deleted.")


@login_required
@require_POST
def change_many(request: HttpRequest) -> HttpResponse:
    """What the buttons under a table of runs do to the selected ones."""
    actor, ids = actor_of(request), request.POST.getlist("runs")
    verb = request.POST.get("verb", "")
    if not ids:
        raise TrainmasterError(
            "request_invalid", what="the selection", why="no run is selected; select some first"
        )
    runs = [queries.find_run(actor, run_id, deleted=True) for run_id in dict.fromkeys(ids)]
    name, value = parse_tag(request.POST.get("tag", ""))
    verbs: dict[str, tuple[Callable[[], object], str]] = {
        "tag": (lambda: [services.set_tags(actor, run, {name: value}) for run in runs], f"tagged {name}"),
        "archive": (lambda: services.archive_runs(actor, ids), "archived"),
        "restore": (lambda: services.restore_runs(actor, ids), "restored"),
        "delete": (lambda: services.delete_runs(actor, ids), "deleted"),
    }
    if verb not in verbs:
        raise TrainmasterError(
            "request_invalid", what="verb", why=f"{verb[:40]!r} is none of {', '.join(verbs)}"
        )
    carry_out, done = verbs[verb]
    try:
        carry_out()
        messages.success(request, f"{plural(len(runs), 'run')} {done}.")
    except TrainmasterError as error:
        if error.code == "not_allowed":
            raise
        messages.error(request, error.sentence)
    back = request.POST.get("back", "")
    return redirect(
        f"{reverse('experiments:detail', args=[runs[0].experiment_id])}?{back}"
        if back
        else reverse("experiments:detail", args=[runs[0].experiment_id])
    )


def _asked_for(request: HttpRequest, run_id: str) -> tuple[Actor, Run]:
    actor = actor_of(request)
    return actor, queries.find_run(actor, run_id, deleted=True)


def _carry_out(request: HttpRequest, run: Run, verb: Callable[[], object], done: str) -> HttpResponse:
    """Back to the page with what was done, or with the refusal."""
    try:
        verb()
        messages.success(request, done)
    except TrainmasterError as error:
        if error.code == "not_allowed":
            raise
        messages.error(request, error.sentence)
    return redirect(page_of(run, request.POST.get("tab", "")))
