"""Device health on the page of a node: what was found, since when, what to do, and the way back into service."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.cluster.device_health import BY_CODE, WHOLE_NODE, Consequence, Severity
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.nodes import device_health, queries, services
from webapp.nodes.models import DeviceFinding, Node

SHOWN = 50
_TONES = {Severity.CRITICAL: "bad", Severity.WARNING: "wait", Severity.NOTICE: ""}
_MEANINGS = {
    Consequence.RECORD: "recorded only",
    Consequence.AVOID: "takes no new jobs until it is over",
    Consequence.TAKE_OUT: "out of service until it is returned",
}


@dataclass(frozen=True, slots=True)
class FindingRow:
    id: int
    where: str  # "Slot 3" or "Node"
    slot: int | None
    sentence: str
    remedy: str
    status: str
    tone: str
    began_ms: int
    closed_ms: int | None
    may_return: bool


def finding_rows(actor: Actor, node: Node) -> list[FindingRow]:
    operator = may(actor, "node.operate")
    rows = device_health.history(node.id, SHOWN)
    return [_row(row, operator) for row in rows if row.code in BY_CODE]


def _row(row: DeviceFinding, operator: bool) -> FindingRow:
    finding = device_health.finding_of(row)
    rule, is_open = finding.rule, row.closed_ms is None
    is_away = is_open and finding.keeps_jobs_away
    return FindingRow(
        id=row.pk,
        where="Node" if row.slot == WHOLE_NODE else f"Slot {row.slot}",
        slot=None if row.slot == WHOLE_NODE else row.slot,
        sentence=rule.says(row.worst),
        remedy=rule.remedy,
        status=_status(row, finding.is_active),
        tone=_TONES[rule.severity] if is_open and finding.is_active else "",
        began_ms=row.began_ms,
        closed_ms=row.closed_ms,
        may_return=operator and is_away,
    )


def _status(row: DeviceFinding, is_active: bool) -> str:
    if row.closed_ms is None and is_active:
        return _MEANINGS[BY_CODE[row.code].consequence]
    return f"returned by {row.returned_by}" if row.returned_by else "over"


@login_required
@require_POST
def return_to_service(request: HttpRequest, node_id: str) -> HttpResponse:
    text = request.POST.get("slot", "")
    slot = whole_number(text, "slot") if text else None
    services.return_to_service(actor_of(request), node_id, slot)
    which = queries.hostname(node_id) if slot is None else f"Slot {slot} of {queries.hostname(node_id)}"
    messages.success(request, f"{which} is in service again.")
    return redirect("nodes:node", node_id)
