"""Requests to use a dataset beyond what its versions are approved for, and the grants that come of them."""

from __future__ import annotations

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.datasets import letters, queries
from webapp.datasets.models import APPROVED, REFUSED, REQUESTED, REVOKED, AccessRequest, Dataset
from webapp.events import services as events

MOST_DAYS = 3650


def request_access(
    actor: Actor, dataset_team: str, name: str, team: str, purpose: str, project: str = "", reason: str = ""
) -> AccessRequest:
    """A lead asks for a use by their team. The same request again gives the one that waits."""
    if not queries.sees_card(actor, dataset_team, name):
        raise TrainmasterError("not_found", what=f"dataset {dataset_team}/{name}")
    permissions.require(actor, "dataset.request", team)
    accounts.team(team)  # an admin may ask for any team that there is
    if not purpose.strip() or "," in purpose:
        raise TrainmasterError("request_invalid", what="purpose", why="name one purpose, such as train")
    with transaction.atomic():
        Dataset.objects.get_or_create(team_id=dataset_team, name=name)
        dataset = Dataset.objects.select_for_update(of=("self",)).get(team=dataset_team, name=name)
        asked = {"dataset": dataset, "team_id": team, "project": project.strip(), "purpose": purpose.strip()}
        waiting = AccessRequest.objects.filter(**asked, state=REQUESTED).first()
        if waiting is not None:
            return waiting
        row = AccessRequest.objects.create(
            **asked, id=new_id("acc"), reason=reason[:2000], requested_by_id=accounts.user_key(actor.username),
            requested_ms=now_ms(),
        )  # fmt: skip
        _record("AccessRequested", row, actor, reason)
        letters.ask(row)
    return row


def decide(actor: Actor, request_id: str, approve: bool, days: int = 0) -> AccessRequest:
    """Approves, for so many days (0: without end), or refuses a request that waits."""
    if not 0 <= days <= MOST_DAYS:
        why = f"it is 0, which does not expire, to {MOST_DAYS}"
        raise TrainmasterError("request_invalid", what=f"days {days}", why=why)
    with transaction.atomic():
        row = _locked(actor, request_id)
        _require_state(row, REQUESTED, "decided")
        row.state, row.decided_ms = APPROVED if approve else REFUSED, now_ms()
        row.decided_by_id = accounts.user_key(actor.username)
        row.expires_ms = row.decided_ms + days * DAY_MS if approve and days else 0
        row.save()
        until = f"for {days} days" if days else "without end"
        _record("AccessApproved" if approve else "AccessRefused", row, actor, until if approve else "")
        letters.answer(row, days if approve else 0)
    return row


def revoke(actor: Actor, request_id: str) -> AccessRequest:
    """Ends a grant now. Attempts that have begun go on; nothing begins any more."""
    with transaction.atomic():
        row = _locked(actor, request_id)
        _require_state(row, APPROVED, "revoked")
        row.state, row.decided_ms = REVOKED, now_ms()
        row.decided_by_id = accounts.user_key(actor.username)
        row.save()
        _record("AccessRevoked", row, actor)
        letters.answer(row)
    return row


def _locked(actor: Actor, request_id: str) -> AccessRequest:
    """The request, where the actor may decide on it. Who asked for it sees it, and may not."""
    row = (
        AccessRequest.objects.select_for_update(of=("self",))
        .select_related("dataset__owner")
        .filter(id=request_id)
        .first()
    )
    dataset = row.dataset if row is not None else None
    if row is None or dataset is None or not queries.sees_request(actor, row):
        raise TrainmasterError("not_found", what=f"access request {request_id}")
    owner = dataset.owner.username if dataset.owner else ""
    if not permissions.may(actor, "dataset.approve", dataset.team_id, owner):
        words = permissions.RULES["dataset.approve"].words
        raise TrainmasterError("not_allowed", what=words, whom=f"a lead of {dataset.team_id}")
    return row


def _require_state(row: AccessRequest, state: str, verb: str) -> None:
    if row.state != state:
        why = f"it is {row.state}; only one that is {state} can be {verb}"
        raise TrainmasterError("request_invalid", what=f"access request {row.id}", why=why)


def _record(kind: str, row: AccessRequest, actor: Actor, detail: str = "") -> None:
    use = f"{row.purpose} by {row.team_id}" + (f" in {row.project}" if row.project else "")
    events.record(
        kind, f"dataset:{row.dataset.team_id}/{row.dataset.name}", actor=actor.name, team=row.dataset.team_id,
        cause=f"{use}: {detail}" if detail else use,
    )  # fmt: skip
