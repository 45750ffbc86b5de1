"""One step of a cycle, written with its event: guarded by the state that was looked at."""

from __future__ import annotations

from platform_core.retraining import cycle as machine
from platform_core.retraining.cycle import ENDED, CycleState
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.registry.services import subject_of
from webapp.retraining import letters
from webapp.retraining.mapping import cycle_of
from webapp.retraining.models import Cycle
from webapp.sockets import services as sockets

MOST_WORDS = 2_000


def locked(cycle_id: str, state: str | None = None) -> Cycle | None:
    """The row for the rest of the transaction; None where it is not in this state any more."""
    rows = Cycle.objects.select_for_update(of=("self",)).filter(pk=cycle_id)
    if state is not None:
        rows = rows.filter(state=state)
    return rows.select_related("model", "author", "base", "version", "endpoint").first()


def step(row: Cycle, event: machine.Event, actor: str = "system") -> None:
    """Inside the transaction in which the row is locked and the event came to be."""
    before, now = row.state, now_ms()
    value = machine.advance(cycle_of(row), event)
    row.state, row.reason = value.state, value.reason[:MOST_WORDS]
    row.job_id, row.version_id = value.job or None, value.version or None
    row.approved_by = list(value.approved_by)
    if row.state != before:
        row.since_ms = now
        row.ended_ms = now if value.state in ENDED else None
    row.save()
    if row.state != before:
        record(row, f"Retraining{_words(value.state)}", actor, row.reason)
        letters.tell(row)
    else:
        publish(row)


def record(row: Cycle, kind: str, actor: str, cause: str) -> None:
    team = row.model.team_id
    events.record(
        kind, f"retraining:{row.id}", actor=actor, team=team, cause=cause,
        data={"model": row.model.name, "job": row.job_id or "", "version": row.version_id or ""},
        notify=(f"models:{team}", subject_of(row.model)),
    )  # fmt: skip


def publish(row: Cycle) -> None:
    sockets.publish(f"models:{row.model.team_id}")


def _words(state: CycleState) -> str:
    return "".join(part.title() for part in state.value.split("_"))
