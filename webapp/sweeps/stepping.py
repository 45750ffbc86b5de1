"""Around the core's `advance`: load the locked rows, apply events in order, write what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.sweeps import states as ev
from platform_core.sweeps.transitions import advance
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.sockets import services as sockets
from webapp.sweeps import mapping
from webapp.sweeps.models import Sweep, Trial

_TOLD = {
    ev.PauseRequested: "SweepPaused",
    ev.ResumeRequested: "SweepResumed",
    ev.BudgetChanged: "SweepBudgetChanged",
    ev.CancelRequested: "SweepCancelled",
}


def value_of(row: Sweep) -> ev.Sweep:
    return mapping.sweep_value(row, Trial.objects.filter(sweep=row.pk).defer("notes").order_by("number"))


def locked(sweep_id: str) -> Sweep:
    """The row, held until the caller's transaction ends."""
    row = Sweep.objects.select_for_update(of=("self",)).filter(id=sweep_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"sweep {sweep_id}")
    return row


def apply(
    row: Sweep,
    happened: Sequence[ev.SweepEvent],
    *,
    actor: str = "system",
    more: Mapping[int, Mapping[str, Any]] | None = None,
) -> ev.Sweep:
    """Applies the events to a locked row. `more` are columns of new trials that the core does not know, by number.

    Raises IllegalTransition for a request that the state does not allow.
    """
    before = value = value_of(row)
    for event in happened:
        value = advance(value, event).sweep
        if type(event) in _TOLD:
            _tell(row, value, _TOLD[type(event)], actor)
    if value == before:
        return value
    if value.state is not before.state and value.state in (
        ev.SweepState.FINISHED,
        ev.SweepState.OUT_OF_BUDGET,
    ):
        _tell(
            row,
            value,
            "SweepFinished" if value.state is ev.SweepState.FINISHED else "SweepOutOfBudget",
            "system",
        )
    if value.state is ev.SweepState.PAUSED is not before.state and actor == "system":
        _tell(row, value, "SweepPaused", "system")
    columns = mapping.sweep_columns(value)
    Sweep.objects.filter(pk=row.pk).update(**columns)
    for name, column in columns.items():
        setattr(row, name, column)
    _write(row, before.trials, value.trials, more or {})
    sockets.publish(f"sweep:{row.id}")
    if (value.state, len(value.trials)) != (before.state, len(before.trials)):
        sockets.publish(f"sweeps:{row.team_id}")
    return value


def _write(
    row: Sweep, before: Sequence[ev.Trial], after: Sequence[ev.Trial], more: Mapping[int, Mapping[str, Any]]
) -> None:
    for old, new in zip(before, after, strict=False):
        if old != new:
            Trial.objects.filter(sweep=row.pk, number=new.number).update(**mapping.trial_columns(new))
    Trial.objects.bulk_create(
        Trial(sweep=row, number=new.number, **mapping.trial_columns(new), **more.get(new.number, {}))
        for new in after[len(before) :]
    )


def _tell(row: Sweep, value: ev.Sweep, kind: str, actor: str) -> None:
    events.record(
        kind,
        f"sweep:{row.id}",
        actor=actor,
        team=row.team_id,
        cause=value.reason,
        at_ms=now_ms(),
        data={"name": row.name, "state": value.state},
    )
