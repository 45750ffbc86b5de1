"""The trace of a job, from its submission to the first step of each attempt: what is kept of it, and its spans."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from platform_core.jobs import start_phases
from platform_core.jobs.start_phases import (
    FIRST_STEP,
    LOAD,
    ORDER,
    PLACEMENT,
    PROCESSES,
    QUEUE,
    Phase,
    Start,
)
from platform_core.node.observed import StartPhase
from platform_core.spans import Span
from platform_core.trace_context import header, parent_id, span_id, trace_id
from webapp.base import spans, tracing
from webapp.base.identity import now_ms
from webapp.base.rows import update_each
from webapp.jobs.models import Attempt, Member

_OF_THE_SCRIPT = (PROCESSES, LOAD, FIRST_STEP)


def submitted(job_id: str, began_ms: int) -> str:
    """The trace context of a new job, in which all of its attempts start. Inside the caller's transaction."""
    own, parent = tracing.traceparent_of("submit", job_id), tracing.current_span()
    trace = trace_id(own) or ""
    named = {"trainmaster.job": job_id}
    spans.export(
        lambda: [
            Span(
                trace,
                parent_id(own),
                parent,
                "submit",
                "trainmaster-web",
                began_ms,
                now_ms(),
                attributes=named,
            )
        ]
    )
    return own


def traceparent(of_job: str, attempt_id: str) -> str:
    """What the processes of an attempt are given; "" for a job without a trace."""
    trace = trace_id(of_job)
    return header(trace, start_phases.attempt_span(attempt_id)) if trace else ""


def starts(attempt_ids: Collection[str]) -> list[Start]:
    """In the order of their numbers."""
    rows = Attempt.objects.filter(id__in=attempt_ids).select_related("job").order_by("number", "id")
    nodes: dict[str, dict[str, tuple[Phase, ...]]] = {}
    members = Member.objects.filter(attempt__in=attempt_ids).order_by("rank")
    for attempt_id, node, phases in members.values_list("attempt_id", "node_id", "start_phases"):
        nodes.setdefault(attempt_id, {})[node] = tuple(
            Phase(name, began_ms, ended_ms, node) for name, began_ms, ended_ms in phases
        )
    before = _ends_before(rows)
    return [_start(row, nodes.get(row.id, {}), before) for row in rows]


def of_job(job_id: str) -> list[Start]:
    return starts(list(Attempt.objects.filter(job=job_id).values_list("id", flat=True)))


def _ends_before(rows: Collection[Attempt]) -> dict[tuple[str, int], int]:
    """When the attempts before these ended."""
    earlier = Attempt.objects.filter(job__in={row.job_id for row in rows if row.number > 1})
    ends = earlier.filter(ended_ms__isnull=False).values_list("job_id", "number", "ended_ms")
    return {(job_id, number): ended_ms for job_id, number, ended_ms in ends if ended_ms is not None}


def _start(
    row: Attempt, nodes: Mapping[str, Sequence[Phase]], before: Mapping[tuple[str, int], int]
) -> Start:
    return Start(
        job_id=row.job_id,
        attempt_id=row.id,
        number=row.number,
        traceparent=row.job.traceparent,
        waiting_ms=before.get((row.job_id, row.number - 1), row.job.submitted_ms),
        placed_ms=row.placed_ms,
        nodes=nodes,
        script_ms=row.script_ms,
        loaded_ms=row.loaded_ms,
        first_step_ms=row.first_step_ms,
        ended_ms=row.ended_ms,
    )


def placed(attempt_ids: Collection[str], round_ms: int) -> None:
    """These gangs were placed by the round that began then. Inside the transaction of their placement."""

    def made() -> Iterator[Span]:
        ended_ms = time.time() * 1000
        for start in starts(attempt_ids):
            yield from start_phases.spans(start, [QUEUE])
            if trace := trace_id(start.traceparent):
                yield Span(
                    trace, span_id(start.attempt_id, PLACEMENT), start_phases.attempt_span(start.attempt_id),
                    PLACEMENT, "trainmaster-scheduler", round_ms, ended_ms,
                    attributes={"trainmaster.job": start.job_id, "trainmaster.attempt": start.attempt_id},
                )  # fmt: skip

    spans.export(made)


def reported(phases: Mapping[tuple[str, str], Sequence[StartPhase]]) -> None:
    """What agents have measured, by attempt and node. It arrives again and again, and is kept once."""
    if not phases:
        return
    rows = Member.objects.filter(
        attempt__in={attempt for attempt, _ in phases}, node__in={node for _, node in phases}, start_phases=[]
    )
    new = {
        row.pk: [
            [phase.name, phase.began_ms, phase.ended_ms] for phase in phases[row.attempt_id, row.node_id]
        ]
        for row in rows
        if (row.attempt_id, row.node_id) in phases
    }
    if not new:
        return
    update_each(Member, {key: {"start_phases": value} for key, value in new.items()})
    seats = {(row.attempt_id, row.node_id) for row in rows if row.pk in new}

    def made() -> Iterator[Span]:
        for start in starts({attempt for attempt, _ in seats}):
            nodes = {node for attempt, node in seats if attempt == start.attempt_id}
            reported = {phase.name for node in nodes for phase in start.nodes[node]}
            for phase in start_phases.spans(start, [ORDER, *reported]):
                if phase.attributes["trainmaster.node"] in nodes:
                    yield phase

    spans.export(made)


def stepped(attempt_id: str) -> None:
    """The attempt has made its first step."""
    _finished([attempt_id], _OF_THE_SCRIPT)


def ended(attempt_ids: Collection[str]) -> None:
    """These attempts ended before their first step."""
    _finished(attempt_ids, ())


def _finished(attempt_ids: Collection[str], names: Sequence[str]) -> None:
    def made() -> Iterator[Span]:
        for start in starts(attempt_ids):
            if names:
                yield from start_phases.spans(start, names)
            if (span := start_phases.whole(start)) is not None:
                yield span

    spans.export(made)
