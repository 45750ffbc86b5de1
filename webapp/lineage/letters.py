"""Mail to the people whose runs, models and services a recall reaches: one each, with all that is theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.conf import settings
from django.urls import reverse

from platform_core.lineage.graph import Kind
from platform_core.units import plural
from webapp.accounts import mailing
from webapp.accounts import queries as accounts
from webapp.accounts.mailing import Kind as MailKind
from webapp.accounts.mailing import Letter
from webapp.lineage.items import Description

if TYPE_CHECKING:
    from webapp.recalls.models import Recall

MOST_LINES = 50
TOLD = frozenset({Kind.DATASET, Kind.RUN, Kind.MODEL, Kind.DEPLOYMENT, Kind.ENDPOINT})


def write(recall: Recall, reached: Iterable[Description]) -> None:
    """Belongs in the transaction of the recall."""
    theirs: dict[tuple[str, str], list[Description]] = {}
    for one in reached:
        if one.owner and one.item.kind in TOLD:
            theirs.setdefault((one.owner, one.team), []).append(one)
    keys = accounts.user_keys({owner for owner, _ in theirs})
    mailing.write(
        [
            _letter(recall, keys[owner], team, sorted(own, key=lambda one: one.item))
            for (owner, team), own in sorted(theirs.items())
            if owner in keys
        ]
    )


def _letter(recall: Recall, user: int, team: str, own: list[Description]) -> Letter:
    lines = [f"  {one.item.kind.value} {one.label}" for one in own[:MOST_LINES]]
    if len(own) > MOST_LINES:
        lines.append(f"  and {len(own) - MOST_LINES:,} more")
    page = f"{settings.PUBLIC_URL}{reverse('lineage:detail', args=[recall.kind, recall.item])}"
    text = (
        f"{recall.recalled_by.username} has recalled {recall.kind} {recall.label}:\n\n{recall.reason}\n\n"
        f"{plural(len(own), 'thing')} of yours in team {team} came of it, and nothing new is made from them:\n\n"
        + "\n".join(lines) + f"\n\n{page}\n"
    )  # fmt: skip
    subject = f"Trainmaster: {recall.kind} {recall.label} was recalled"
    return Letter(f"recall:{recall.id}:{team}", user, team, MailKind.FAILURES, subject, text)
