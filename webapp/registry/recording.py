"""Events of models, and the live subject of their pages."""

from typing import Any
from urllib.parse import quote

from webapp.accounts.permissions import Actor
from webapp.events import services as events
from webapp.registry.models import Model


def record(kind: str, row: Model, actor: Actor, **data: Any) -> None:
    notify = (f"models:{row.team_id}",)
    events.record(
        kind, subject_of(row), actor=actor.name, team=row.team_id, cause=row.name, data=data, notify=notify
    )


def subject_of(row: Model) -> str:
    """Of events and live pages; a name may have any character, a subject may not."""
    return f"model:{row.team_id}/{quote(row.name, safe='')}"[:140]
