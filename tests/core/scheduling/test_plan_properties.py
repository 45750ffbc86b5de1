"""What holds for every cluster and every queue."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import Snapshot
from platform_core.scheduling.decisions import WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.rules import possible_places, violations, without_vain_exclusions


@pytest.mark.parametrize("order", sorted(ORDERS))
@given(snapshot=snapshots())
def test_no_plan_breaks_a_rule(order: str, snapshot: Snapshot) -> None:
    made = plan(snapshot, Policy(order=order))
    assert violations(snapshot, made) == set()


@given(snapshot=snapshots(), seed=st.integers(0, 1_000))
def test_the_plan_does_not_depend_on_how_the_snapshot_is_listed(snapshot: Snapshot, seed: int) -> None:
    rng = random.Random(seed)
    shuffled = replace(
        snapshot,
        nodes=tuple(rng.sample(snapshot.nodes, len(snapshot.nodes))),
        pending=tuple(rng.sample(snapshot.pending, len(snapshot.pending))),
        running=tuple(rng.sample(snapshot.running, len(snapshot.running))),
        teams=tuple(rng.sample(snapshot.teams, len(snapshot.teams))),
    )
    assert plan(shuffled) == plan(snapshot)


@given(snapshot=snapshots())
def test_nothing_more_could_start_after_the_plan(snapshot: Snapshot) -> None:
    """A second round on the outcome of the first finds nothing left to do."""
    first = plan(snapshot)
    taken = {(seat.node, slot) for each in first.placements for seat in each.members for slot in seat.slots}
    jobs = {job.id: job for job in snapshot.pending}
    started = {each.job_id for each in first.placements}
    after = replace(
        snapshot,
        nodes=tuple(
            replace(node, free_slots=tuple(slot for slot in node.free_slots if (node.id, slot) not in taken))
            for node in snapshot.nodes
        ),
        pending=tuple(job for job in snapshot.pending if job.id not in started),
        teams=tuple(
            replace(
                share,
                used=share.used
                + sum(
                    jobs[job_id].num_gpus
                    for job_id in started
                    if (jobs[job_id].team, jobs[job_id].gpu_type) == (share.team, share.gpu_type)
                ),
            )
            for share in snapshot.teams
        ),
    )
    assert plan(after).placements == ()


@given(snapshot=snapshots())
def test_strict_order_starts_nobody_after_the_first_that_waits(snapshot: Snapshot) -> None:
    strict = plan(snapshot, Policy(order="first_come", skip_ahead=False))
    assert [each.job_id for each in strict.placements] == list(strict.order[: len(strict.placements)])
    free = {node.id: len(node.free_slots) for node in snapshot.nodes}
    for each in strict.placements:
        for seat in each.members:
            free[seat.node] -= len(seat.slots)
    if strict.waits and strict.waits[0].code is not WaitCode.QUOTA:
        first = next(job for job in snapshot.pending if job.id == strict.waits[0].job_id)
        nodes = {node.id: node for node in snapshot.nodes}
        assert not possible_places(without_vain_exclusions(first, nodes), nodes, free)


@given(snapshot=snapshots())
def test_a_job_said_never_to_fit_does_not_fit_the_empty_repaired_cluster(snapshot: Snapshot) -> None:
    nodes = {node.id: replace(node, state=NodeState.READY, windows=()) for node in snapshot.nodes}
    empty = {node.id: node.slots for node in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.pending}
    for wait in plan(snapshot).waits:
        never = wait.code in (WaitCode.CANNOT_EVER_FIT, WaitCode.GPU_TYPE_MISSING)
        job = without_vain_exclusions(jobs[wait.job_id], nodes)
        assert never == (possible_places(job, nodes, empty) == [])


@given(snapshot=snapshots())
def test_positions_count_the_waiting_jobs_of_each_type_in_order(snapshot: Snapshot) -> None:
    jobs = {job.id: job for job in snapshot.pending}
    seen: dict[str, int] = {}
    for wait in plan(snapshot).waits:
        gpu_type = jobs[wait.job_id].gpu_type
        seen[gpu_type] = seen.get(gpu_type, 0) + 1
        assert dict(wait.numbers)["position"] == seen[gpu_type]
