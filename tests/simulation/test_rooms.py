"""The room that others make by moving is used by the gang for which it was made, and they start where they move to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling import engine
from platform_core.scheduling.decisions import Placement, StopKind
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import TraceJob
from platform_core.units import MINUTE_MS
from tests.core.scheduling.situations import node

POLICIES = [
    Policy("size_and_wait", evicts=True, migrates=True, reservations=1),
    Policy("first_come", evicts=True, migrates=True),
    Policy("least_attained_service", evicts=True, migrates=True),
]
Round = tuple[Snapshot, Decisions]
Started = list[tuple[PendingJob, Placement]]

traces = st.lists(
    st.builds(
        lambda submit, gpus, duration, priority: (submit, gpus, duration, priority),
        st.integers(0, 600), st.sampled_from((1, 1, 1, 2, 4, 8)), st.integers(1, 900), st.sampled_from((40, 50)),
    ),
    min_size=8, max_size=24,
)  # fmt: skip


def history(trace: list[tuple[int, int, int, int]], policy: Policy) -> list[Round]:
    """Every round of three nodes of eight slots; minutes."""
    jobs = [
        replace(
            TraceJob(
                f"j{number:02}", submit * MINUTE_MS, gpus, duration * MINUTE_MS, 2 * duration * MINUTE_MS
            ),
            priority=priority,
        )
        for number, (submit, gpus, duration, priority) in enumerate(trace)
    ]
    rounds: list[Round] = []

    def watched(snapshot: Snapshot, policy: Policy) -> Decisions:
        decided = decide(snapshot, policy)
        rounds.append((snapshot, decided))
        return decided

    Cluster([node(f"n{number}", slots=8) for number in range(3)], jobs, policy, decider=watched).run()
    return rounds


def moved_for(rounds: list[Round]) -> Iterator[tuple[PendingJob, list[PendingJob]]]:
    """For whom others were moved, and who started from then on in the rounds of that moment."""
    for number, (snapshot, decided) in enumerate(rounds):
        at_once = [later for seen, later in rounds[number + 1 :] if seen.now_ms == snapshot.now_ms]
        started = [job for later in at_once for job, _ in later.started]
        for_jobs = {stop.for_job for stop in decided.stops if stop.kind is StopKind.MOVED}
        for job in snapshot.pending:
            if job.id in for_jobs:
                yield job, started


def is_kept(job: PendingJob, started: list[PendingJob]) -> bool:
    return any(each.id == job.id or each.priority < job.priority for each in started)


@settings(max_examples=150)
@given(traces, st.sampled_from(POLICIES))
def test_whoever_others_were_moved_for_starts_unless_one_more_urgent_does(
    trace: list[tuple[int, int, int, int]], policy: Policy
) -> None:
    for job, started in moved_for(history(trace, policy)):
        assert is_kept(job, started), (
            f"others moved for {job.id}, and {[each.id for each in started]} started"
        )


@settings(max_examples=150)
@given(traces, st.sampled_from(POLICIES))
def test_whoever_moves_to_a_place_starts_there_unless_one_more_urgent_does(
    trace: list[tuple[int, int, int, int]], policy: Policy
) -> None:
    for job, nodes, started in moved_to(history(trace, policy)):
        where = [[seat.node for seat in seats.members] for each, seats in started if each.id == job]
        urgent = any(each.priority < 50 for each, _ in started)
        assert urgent or where == [list(nodes)], f"{job} was to go to {nodes} and went to {where}"


def moved_to(rounds: list[Round]) -> Iterator[tuple[str, tuple[str, ...], Started]]:
    """Who moves, where to, and who started from then on in the rounds of that moment."""
    for number, (snapshot, decided) in enumerate(rounds):
        at_once = [later for seen, later in rounds[number + 1 :] if seen.now_ms == snapshot.now_ms]
        for room in decided.state.node_reservations:
            if room.until_ms is not None:
                yield room.job_id, room.nodes, [each for later in at_once for each in later.started]


def random_traces() -> Iterator[list[tuple[int, int, int, int]]]:
    chance = random.Random(7)
    for _ in range(150):
        yield [
            (chance.randrange(600), chance.choice((1, 1, 1, 2, 4, 8)), chance.randrange(1, 900), 50)
            for _ in range(chance.randrange(12, 40))
        ]


def test_moves_do_happen_in_such_histories() -> None:
    histories = [history(trace, POLICIES[0]) for trace in random_traces()]
    assert sum(1 for rounds in histories for _ in moved_for(rounds)) >= 20
    assert sum(1 for rounds in histories for _ in moved_to(rounds)) >= 20


def test_without_that_rule_some_room_is_taken_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_with_reserved_nodes", lambda *_: [])
    told = [is_kept(*each) for trace in random_traces() for each in moved_for(history(trace, POLICIES[0]))]
    assert not all(told)
