"""What the simulator plays is what production does: one history, once there and once on a real database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from platform_core.cluster.snapshot import NodeView
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, HintScheduler, ReleaseSlots, Step, StopMembers
from platform_core.jobs.job import Job as JobValue
from platform_core.scheduling.policy import Policy
from platform_core.simulation import jobs as simulated
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import Departure, Saving, TraceJob
from tests.core.scheduling.situations import node as node_view
from webapp.jobs import members, services
from webapp.jobs.mapping import job_value
from webapp.jobs.models import Attempt, Job
from webapp.jobs.services import Placing
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import LedgerEntry

SECOND_MS, HOUR_MS = 1_000, 3_600_000
History = list[tuple[str, ev.JobEvent, Step]]

JOBS = [
    TraceJob("gang", 0, 4, 900 * SECOND_MS, HOUR_MS, priority=60, saving=Saving(every_ms=60 * SECOND_MS)),
    TraceJob("slow", 1_000, 2, 600 * SECOND_MS, HOUR_MS, priority=60, saving=Saving(takes_ms=90 * SECOND_MS)),
    TraceJob("urgent", 100_000, 4, 50 * SECOND_MS, HOUR_MS, priority=50),
    TraceJob(
        "never saves", 2_000, 2, 500 * SECOND_MS, HOUR_MS, priority=60, saving=Saving(when_stopped=False)
    ),
]
GONE = [
    Departure("node-n0", 150 * SECOND_MS, 0, 160 * SECOND_MS),  # back before anybody noticed
    Departure("node-n1", 300 * SECOND_MS, 120 * SECOND_MS, 500 * SECOND_MS),
    Departure("node-n0", 600 * SECOND_MS, 0, 700 * SECOND_MS),
    Departure("node-n2", 800 * SECOND_MS, 40 * SECOND_MS, 900 * SECOND_MS),
    Departure("node-n1", 950 * SECOND_MS, 0, 955 * SECOND_MS),
    Departure("node-n1", 990 * SECOND_MS, 0, 995 * SECOND_MS),
]


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> History:
    """Every event of a simulated history, with what the simulator made of it."""
    told: History = []
    submit, advance = simulated.submit, simulated.advance

    def submitted(job_id: str, spec: object, event: ev.Submitted) -> Step:
        step = submit(job_id, spec, event)  # type: ignore[arg-type]
        told.append((job_id, event, step))
        return step

    def advanced(job: JobValue, event: ev.JobEvent) -> Step:
        step = advance(job, event)
        told.append((job.id, event, step))
        return step

    monkeypatch.setattr(simulated, "submit", submitted)
    monkeypatch.setattr(simulated, "advance", advanced)
    nodes: list[NodeView] = [node_view(f"n{number}", slots=2) for number in range(3)]
    Cluster(nodes, JOBS, Policy(evicts=True, reservations=1), departures=GONE).run()
    return told


@pytest.fixture
def real(node: Callable[..., Node]) -> dict[str, str]:
    """Simulated node → its row."""
    return {f"node-n{number}": node(f"n{number}", slots=2).id for number in range(3)}


class Production:
    def __init__(self, submit: Callable[..., Job], real: dict[str, str]) -> None:
        self._submit, self._real = submit, real
        self._ids: dict[str, str] = {}

    def play(self, job_id: str, event: ev.JobEvent) -> Step:
        match event:
            case ev.Submitted():
                return self._submitted(next(job for job in JOBS if job.id == job_id), event)
            case ev.Placed():
                seats = tuple((self._real[each.node], each.rank, each.slots) for each in event.members)
                assert services.place([Placing(self._ids[job_id], seats, "as simulated")], event.at_ms)
                return Step(self.value(job_id))
        if isinstance(event, ev.MemberObserved | ev.NodeLost):
            event = replace(event, node=self._real[event.node])
        services.observe(self._ids[job_id], event)
        return Step(self.value(job_id))

    def _submitted(self, trace: TraceJob, event: ev.Submitted) -> Step:
        asked = {"num_gpus": trace.gpus, "preemptible": True, "priority": trace.priority}
        job = self._submit(name=trace.id, **asked)
        Job.objects.filter(id=job.id).update(submitted_ms=event.at_ms, waiting_since_ms=event.at_ms)
        self._ids[trace.id] = job.id
        return Step(self.value(trace.id))

    def value(self, job_id: str) -> JobValue:
        """As the rows have it, in the simulator's names."""
        row = Job.objects.get(id=self._ids[job_id])
        attempt = Attempt.objects.filter(job=row, number=row.attempt).first()
        value = job_value(row, attempt, attempt.members.all() if attempt else [])
        simulated_node = {real: name for name, real in self._real.items()}
        return replace(
            value,
            id=job_id,
            members=tuple(replace(each, node=simulated_node[each.node]) for each in value.members),
            failures=tuple(replace(each, node=simulated_node[each.node]) for each in value.failures),
            excluded_nodes=tuple(simulated_node[each] for each in value.excluded_nodes),
        )

    def graces(self, job_id: str) -> dict[str, int]:
        """Node → the time its agent is told, where the job shall stop."""
        wanted = members.wanted_on(list(self._real.values()))
        names = {real: name for name, real in self._real.items()}
        return {
            names[node]: member.stop_grace_ms
            for node, members in wanted.items()
            for member in members
            if member.job_id == self._ids[job_id] and member.stopping
        }

    def held(self, job_id: str) -> set[str]:
        names = {real: name for name, real in self._real.items()}
        mine = Attempt.objects.filter(job=self._ids[job_id]).values("id")
        return {
            names[node] for node in Slot.objects.filter(attempt_id__in=mine).values_list("node", flat=True)
        }


def comparable(job: JobValue) -> JobValue:
    """Without what people wrote, and the texts in which production writes hostnames."""
    members = tuple(replace(each, reason="") for each in job.members)
    # A finished attempt's moment of running stays in its own row, and counts for nothing any more.
    return replace(job, spec=None, reason="", members=members, version=0)  # type: ignore[arg-type]


def test_one_history_gives_the_same_states_graces_and_effects(
    history: History,
    submit: Callable[..., Job],
    real: dict[str, str],
    quota: Callable[..., object],
    vision: object,
) -> None:
    quota(vision)
    production = Production(submit, real)
    for number, (job_id, event, step) in enumerate(history):
        told = (number, job_id, event)
        after = production.play(job_id, event).job
        assert comparable(after) == comparable(step.job), told
        for effect in step.effects:
            match effect:
                case StopMembers(nodes=nodes, grace_ms=grace_ms):
                    assert production.graces(job_id).items() >= dict.fromkeys(nodes, grace_ms).items(), told
                case ReleaseSlots(nodes=nodes):
                    assert production.held(job_id).isdisjoint(nodes), told
                case GangEnded(outcome=outcome):
                    assert Attempt.objects.get(job__name=job_id, number=step.job.attempt).outcome.startswith(
                        outcome
                    )
                case HintScheduler():
                    pass
    assert not LedgerEntry.objects.filter(ended_ms=None).exists()
    graces = {
        effect.grace_ms
        for _, _, step in history
        for effect in step.effects
        if isinstance(effect, StopMembers)
    }
    assert graces == {10_000, 40_000, 60_000, 120_000}, "the history has a stop of each kind but a cancel"
    assert any(step.job.not_before_ms for _, _, step in history)
