"""The pages of nodes, and what operators do to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor, may, require
from webapp.accounts.queries import actor_of
from webapp.events import queries as events
from webapp.events.models import Event
from webapp.jobs import occupancy
from webapp.nodes import enrolment, queries, services
from webapp.nodes.join_command import join_command
from webapp.nodes.models import Node
from webapp.pages import fragments
from webapp.pages.figures import Figure
from webapp.pages.nodes import presentation as pages
from webapp.pages.nodes.device_health import FindingRow, finding_rows
from webapp.pages.nodes.forms import BootstrapTokenForm
from webapp.pages.queue.panels import KeptPlace, kept_places

EVENTS_SHOWN = 50
NOTICE_SECONDS = 120  # what clouds give


@dataclass(frozen=True, slots=True)
class NodesPage:
    """Fragment: list. Query: state, q."""

    headline: str  # "12 of 16 GPUs in use"
    sentence: str  # "on 4 nodes: 3 ready, 1 lost"
    figures: list[Figure]
    nodes: list[dict[str, Any]]  # webapp.jobs.occupancy.rows, what needs attention first
    filtered: bool
    join_command: str  # for the empty page
    may: dict[str, bool]


@dataclass(frozen=True, slots=True)
class NodePage:
    """Fragments: head, slots, findings, events."""

    node_id: str
    node: Callable[[], dict[str, Any]]  # webapp.jobs.occupancy.row
    figures: Callable[[], list[Figure]]
    facts: list[tuple[str, str]]
    slots: Callable[[], list[dict[str, Any]]]
    events: Callable[[], list[Event]]  # newest first
    findings: Callable[[], list[FindingRow]]  # of device health, open ones first
    windows: Callable[[], Sequence[Any]]  # booked maintenance
    kept: Callable[[], list[KeptPlace]]  # waiting jobs that are to get this node


@login_required
@require_safe
def nodes(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "node.view")
    matching = Node.objects.all()
    state, search = request.GET.get("state", ""), request.GET.get("q", "").strip()
    if state:
        matching = matching.filter(state=state)
    if search:
        matching = matching.filter(Q(hostname__icontains=search) | Q(rack__icontains=search) | Q(id=search))
    rows = occupancy.rows(actor, occupancy.look(list(matching)))
    operator = may(actor, "node.operate")
    page = NodesPage(
        headline=pages.headline(rows),
        sentence=pages.sentence(rows),
        figures=pages.figures(rows) if rows else [],
        nodes=rows,
        filtered=bool(state or search),
        join_command=join_command(),
        may={"drain": operator, "join": operator},
    )
    return fragments.render(request, "nodes/list.html", page)


@login_required
@require_safe
def node(request: HttpRequest, node_id: str) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "node.view")
    row = Node.objects.filter(id=node_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"node {node_id}")
    seen = cache(lambda: occupancy.look([row]))
    shown = cache(lambda: occupancy.row(actor, seen(), row))
    page = NodePage(
        node_id=node_id,
        node=shown,
        figures=lambda: pages.node_figures(shown()),
        facts=pages.facts(row),
        slots=lambda: pages.slot_rows(actor, seen(), row),
        events=lambda: events.story(f"node:{node_id}", EVENTS_SHOWN)[::-1],
        findings=lambda: finding_rows(actor, row),
        windows=lambda: queries.maintenance(node_id),
        kept=lambda: [place for place in kept_places(actor) if node_id in place.nodes],
    )
    return fragments.render(request, "nodes/detail.html", page)


def _operate(request: HttpRequest, node_id: str, do: Callable[[Actor, str], None], done: str) -> HttpResponse:
    do(actor_of(request), node_id)
    messages.success(request, f"{queries.hostname(node_id)} {done}.")
    return redirect("nodes:node", node_id)


@login_required
@require_POST
def drain(request: HttpRequest, node_id: str) -> HttpResponse:
    return _operate(request, node_id, services.drain, "takes no new jobs")


@login_required
@require_POST
def resume(request: HttpRequest, node_id: str) -> HttpResponse:
    return _operate(request, node_id, services.resume, "takes jobs again")


@login_required
@require_POST
def mark(request: HttpRequest, node_id: str) -> HttpResponse:
    labels = services.read_labels(request.POST.get("labels", ""))
    taints = request.POST.get("taints", "").replace(",", " ").split()

    def do(actor: Actor, node: str) -> None:
        services.mark(actor, node, labels=labels, taints=taints)

    return _operate(request, node_id, do, "has these labels and taints from the next scheduling round")


@login_required
@require_POST
def notice(request: HttpRequest, node_id: str) -> HttpResponse:
    def do(actor: Actor, node: str) -> None:
        services.give_notice(actor, node, NOTICE_SECONDS)

    return _operate(request, node_id, do, "takes no new jobs; its jobs save and migrate")


@login_required
@require_POST
def revoke(request: HttpRequest, node_id: str) -> HttpResponse:
    return _operate(request, node_id, services.revoke, "is revoked")


@login_required
@require_POST
def readmit(request: HttpRequest, node_id: str) -> HttpResponse:
    return _operate(request, node_id, services.readmit, "can join again with a bootstrap token")


@dataclass(frozen=True, slots=True)
class TokensPage:
    tokens: Sequence[Any]
    new_token: str  # its text, shown this once, or ""
    problems: dict[str, str]
    join_command: str  # what to paste into a shell of the new node, with the new token


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """Bootstrap tokens. A new one is shown on the answer itself, this once."""
    actor = actor_of(request)
    require(actor, "node.operate")
    form = BootstrapTokenForm(request.POST or None)
    new_token, status = "", 200
    if request.method == "POST":
        if form.is_valid():
            new_token = enrolment.create_bootstrap_token(actor, **form.cleaned_data).text
        else:
            status = 422
    page = TokensPage(
        tokens=queries.bootstrap_tokens(),
        new_token=new_token,
        problems={field: f"{field.capitalize()}: {errors[0]}" for field, errors in form.errors.items()},
        join_command=join_command(new_token) if new_token else "",
    )
    return fragments.render(request, "nodes/tokens.html", page, status=status)


@login_required
@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    enrolment.revoke_bootstrap_token(actor_of(request), token_id)
    messages.success(request, "Bootstrap token revoked. Nodes that joined with it stay.")
    return redirect("nodes:tokens")
