"""Steps of a deployment: the core advances it, what changed is written, the story told, the consequences carried out.

In as many statements for the words of a thousand nodes as for that of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import F

from platform_core.distribution.deployments import deployment as core
from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.errors import IllegalTransition
from webapp.base.rows import update_each
from webapp.deployments import mapping
from webapp.deployments.delivery import seating
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.signals import copies_changed
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.sockets import services as sockets


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one event changed."""

    event: core.Event
    before: core.Deployment
    step: core.Step

    @property
    def after(self) -> core.Deployment:
        return self.step.deployment

    def workers(self) -> list[tuple[core.Worker, core.Worker]]:
        pairs = zip(self.before.workers, self.after.workers, strict=True)
        return [(old, new) for old, new in pairs if old is not new and old != new]


def step(row: Deployment, events: Sequence[core.Event]) -> None:
    """Advance by these events, inside the caller's transaction, which holds the row."""
    workers = list(Worker.objects.filter(deployment=row).defer("chunks_done", "lanes").order_by("position"))
    before = mapping.deployment_value(row, workers)
    turns = _turns(before, events)
    if not turns:
        sockets.publish(f"progress:{row.id}")
        return
    after = turns[-1].after
    _write(row, workers, before, after)
    for turn in turns:
        _tell_nodes(row, turn)
    changed = [pair for turn in turns for pair in turn.workers()]
    if any(seating.GONE & {old.state, new.state} for old, new in changed):
        seating.reseat(row)
    lines = [line for turn in turns for line in _story(row, turn)]
    _record(lines)
    if not lines:
        sockets.publish(f"progress:{row.id}")
    stand = dict.fromkeys(new.node for old, new in changed if _stands(old) != _stands(new))
    if stand or after.state is DeploymentState.CANCELLED:
        copies_changed.send(Deployment, row=row, nodes=list(stand))


def tell(row: Deployment, kind: str, actor: str, cause: str) -> None:
    """One line of its story."""
    _record([_line(row, kind, actor, cause)])


# -- inside


def _turns(deployment: core.Deployment, events: Iterable[core.Event]) -> list[_Turn]:
    """Those that changed something."""
    turns = []
    for event in events:
        try:
            result = core.advance(deployment, event)
        except IllegalTransition:
            if isinstance(event, core.WorkerReported):
                continue  # a late word of a worker
            raise
        if result.deployment != deployment:
            turns.append(_Turn(event, deployment, result))
            deployment = result.deployment
    return turns


def _write(
    row: Deployment, workers: Sequence[Worker], before: core.Deployment, after: core.Deployment
) -> None:
    columns = mapping.deployment_columns(after)
    columns["reason"] = cluster_queries.with_hostnames(after.reason)
    Deployment.objects.filter(id=row.id, version=before.version).update(**columns)
    for name, value in columns.items():
        setattr(row, name, value)
    values = zip(workers, before.workers, after.workers, strict=True)
    update_each(Worker, {each.id: mapping.worker_columns(new) for each, old, new in values if old != new})


def _tell_nodes(row: Deployment, turn: _Turn) -> None:
    for effect in turn.step.effects:
        if isinstance(effect, core.TellWorkers):
            if isinstance(turn.event, core.RetryRequested):  # else the node would wait for its own next try
                Worker.objects.filter(deployment=row, node__in=effect.nodes).update(retry=F("retry") + 1)
            clusters.touch(list(effect.nodes))


def _story(row: Deployment, turn: _Turn) -> list[Happening]:
    """What a person would want to read: changes of state, not each megabyte."""
    event, lines = turn.event, []
    for old, new in turn.workers():
        if old.state != new.state and new.state is not WorkerState.IDLE:
            cause = f"{new.node} is {new.state}" + (f": {new.error}" if new.error else "")
            lines.append(_line(row, f"Worker{new.state.title()}", event.actor, cause, event.at_ms))
    if turn.before.state != turn.after.state:
        cause = turn.after.reason or core.DESCRIPTION[turn.after.state]
        lines.append(_line(row, f"Deployment{turn.after.state.title()}", event.actor, cause, event.at_ms))
    return lines


def _line(row: Deployment, kind: str, actor: str, cause: str, at_ms: int | None = None) -> Happening:
    return Happening(
        kind, f"deployment:{row.id}", actor, row.team_id, cause, at_ms, {"name": str(row.model_version)},
        (f"deployments:{row.team_id}",),
    )  # fmt: skip


def _record(lines: Sequence[Happening]) -> None:
    """With the names of nodes that people know."""
    if not lines:
        return
    named = cluster_queries.all_with_hostnames([text for line in lines for text in (line.actor, line.cause)])
    pairs = zip(lines, named[::2], named[1::2], strict=True)
    events.record_all([replace(line, actor=actor, cause=cause) for line, actor, cause in pairs])


def _stands(worker: core.Worker) -> tuple[WorkerState, bool]:
    """What counts for whether it can run the version."""
    return worker.state, worker.bytes_done < worker.bytes_total
