"""The form of a deployment: to which nodes, rack by rack, and how; checked as it stands before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.cluster.health import NodeState
from platform_core.distribution.content.tiling import MIB
from platform_core.distribution.rollouts.canaries import DEFAULT_CHECK_SECONDS
from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.deployments import services
from webapp.deployments.delivery import planning, sharing
from webapp.deployments.delivery.sharing import PRIORITIES
from webapp.deployments.values import Manner
from webapp.nodes import queries as clusters
from webapp.nodes.queries import NodeSummary
from webapp.registry import queries as registry
from webapp.rollouts import services as rollouts
from webapp.rollouts.values import RolloutWish

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion

FEW = 24  # nodes that are shown at once, without opening their racks
_NUMBERS = {
    "priority": "not a number from 1 to 100; leave it empty for the default, 10",
    "rate_cap_mib": "not a whole number of MiB/s; leave it empty for no cap",
    "hold_minutes": "not a number of minutes; leave it empty to promote by hand",
    "check_every": "not a number of seconds; 0 does not repeat the check",
    "roll_back_after": "not a number of failures; leave it empty to decide by hand",
}
# What the parts below call what the form has under another name.
_FIELDS = {
    "target_workers": "targets",
    "rate_cap": "rate_cap_mib",
    "hold_seconds": "hold_minutes",
    "check_every_seconds": "check_every",
}
_SHOWN_AGAIN = {"request_invalid", "node_unknown"}


class Refusal(Exception):
    """`problems`: field → the sentence that stands at it."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(problems)
        self.problems = problems


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    actor, given = actor_of(request), request.POST if request.method == "POST" else request.GET
    version = _version(actor, given)
    model = str(version.model)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            targets, manner, wish = _entered(given)
            row = rollouts.deploy(
                actor, model, version.version, wish=wish, target_workers=targets, manner=manner
            )
        except Refusal as refusal:
            problems = refusal.problems
        except TrainmasterError as error:
            problems = _problem(error)
        else:
            messages.success(request, f"The deployment of {model} version {version.version} was created.")
            return redirect("deployments:detail", deployment_id=row.id)
    return render(
        request, "deployments/create.html", _page(version, given, problems), status=422 if problems else 200
    )


@login_required
@require_POST
def plan(request: HttpRequest) -> HttpResponse:
    """What each strategy would take, for the form as it stands. Thousands of nodes need a POST."""
    actor, given = actor_of(request), request.POST
    version = _version(actor, given)
    try:
        targets, manner, _ = _entered(given)
        version_found, places = services.what_and_where(actor, str(version.model), version.version, targets)
        assert version_found.manifest is not None, "a version that is ready has one"
        size, piece = version_found.manifest.total_bytes, version_found.manifest.document["piece_size"]
        cap = sharing.least_cap(version_found.model.team_id, manner.rate_cap)
        planned = planning.plan(places, size, piece, manner.strategy, cap)
    except Refusal as refusal:
        return render(request, "deployments/plan.html", {"why": " ".join(refusal.problems.values())})
    except TrainmasterError as error:
        return render(request, "deployments/plan.html", {"why": " ".join(_problem(error).values())})
    estimate = {
        "plan": planned,
        "nodes": len(places),
        "needed": size,
        "short": planning.short_of_room(places, size),
    }
    return render(request, "deployments/plan.html", estimate)


def _version(actor: Actor, given: QueryDict) -> ModelVersion:
    """Not found, for all they know, to those who may not see it."""
    version = registry.version(given.get("model_version", ""))
    if version is None:
        raise TrainmasterError("not_found", what="model version")
    permissions.require(actor, "deployment.create", version.model.team_id, what="model version")
    return version


def _problem(error: TrainmasterError) -> dict[str, str]:
    if error.code == "gate_refused":
        return {"": error.sentence}
    if error.code not in _SHOWN_AGAIN:
        raise error
    field = str(error.numbers.get("what", "targets"))
    return {_FIELDS.get(field, field): error.sentence}


def _entered(given: QueryDict) -> tuple[list[str], Manner, RolloutWish | None]:
    targets = given.getlist("targets")
    numbers = {field: given.get(field, "").strip() for field in _NUMBERS}
    problems = {
        field: f'"{text}" is {_NUMBERS[field]}.'
        for field, text in numbers.items()
        if not _is_number(field, text)
    }
    if not targets:  # over REST none means all, but here somebody unticked them
        problems["targets"] = "Choose at least one node."
    if problems:
        raise Refusal(problems)
    entered = {field: int(text) for field, text in numbers.items() if text}
    return targets, _manner(given, entered), _rollout(given, entered)


def _is_number(field: str, text: str) -> bool:
    """Empty is none."""
    fits = text.isascii() and text.isdigit() and len(text) < 7
    return not text or (fits and (field != "priority" or int(text) in PRIORITIES))


def _manner(given: Mapping[str, str], known: Mapping[str, int]) -> Manner:
    return Manner(
        preheat="preheat" in given,
        pin="pin" in given,
        priority=known.get("priority", 0),
        rate_cap=known.get("rate_cap_mib", 0) * MIB,
    )


def _rollout(given: Mapping[str, str], numbers: Mapping[str, int]) -> RolloutWish | None:
    """None unless one of its fields says that the version shall become active."""
    fields = ("activate", "canary", "hold_minutes", "health_check", "hook", "wait_for_all")
    if not any(given.get(field, "").strip() for field in fields):
        return None
    minutes = numbers.get("hold_minutes")
    return RolloutWish(
        canary=given.get("canary", "").strip(),
        hold_seconds=None if minutes is None else minutes * 60,
        health_check=given.get("health_check", "").strip(),
        check_every_seconds=numbers.get("check_every", DEFAULT_CHECK_SECONDS),
        roll_back_after=numbers.get("roll_back_after", 0),
        hook=given.get("hook", "").strip(),
        wait_for_all="wait_for_all" in given,
    )


def _page(version: ModelVersion, given: QueryDict, problems: dict[str, str]) -> dict[str, Any]:
    again = bool(problems)
    racks = _racks(set(given.getlist("targets")) if again else None)
    values = {name: str(given[name]) for name in given} if again else {}
    return {
        "version": {
            "id": version.id,
            "model": version.model.name,
            "team": version.model.team_id,
            "version": version.version,
            "bytes": version.manifest.total_bytes if version.manifest else None,
        },
        "racks": racks,
        "few": sum(len(rack["nodes"]) for rack in racks) <= FEW,
        "values": values,
        "activating": _rollout(values, {}) is not None or bool(problems.keys() - {"targets", "priority"}),
        "problems": problems,
    }


def _racks(chosen: set[str] | None) -> list[dict[str, Any]]:
    """The nodes that a model can go to, by rack. None: nobody has chosen yet, so all that are ready are."""
    nodes = sorted(clusters.summaries(), key=lambda node: (node.rack, node.hostname))
    telemetry = clusters.telemetry([node.id for node in nodes])
    free = {node_id: reading.disk_free_bytes for node_id, reading in telemetry.items()}
    return [
        {"rack": rack, "nodes": [_node(node, free.get(node.id), chosen) for node in of_rack]}
        for rack, of_rack in groupby(nodes, lambda node: node.rack)
    ]


def _node(node: NodeSummary, free: int | None, chosen: set[str] | None) -> dict[str, Any]:
    ready, agent = node.state is NodeState.READY, bool(node.transfer_port)
    return {
        "id": node.id,
        "name": node.hostname,
        "state": node.state,
        "gpu_type": node.gpu_type,
        "disk_free": free,
        "ready": ready,
        "agent": agent,
        "chosen": ready and (agent if chosen is None else node.id in chosen),
    }
