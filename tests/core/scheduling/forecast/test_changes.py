"""What would start a waiting job now: each answer, applied, does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.engine import decide, plan
from platform_core.scheduling.forecast.changes import TRIES, Change, changes
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
RESERVES = Policy(reservations=1)
STOPS = Policy(reservations=1, evicts=True, migrates=True, elastic=True, reclaims=True)


def applied(situation: Snapshot, job_id: str, change: Change, named: str) -> Snapshot:
    """What a person would do: submit it anew and cancel the old one, or change its priority, its quota, the cluster."""
    (job,) = [each for each in situation.pending if each.id == job_id]
    others = [each for each in situation.pending if each.id != job_id]
    if change.field == "maximum":
        mine = [each for each in situation.teams if (each.team, each.gpu_type) == (job.team, job.gpu_type)]
        share = mine[0] if mine else team(job.team, gpu_type=job.gpu_type)
        kept = [each for each in situation.teams if each not in mine]
        return replace(situation, teams=(*kept, replace(share, maximum=int(change.value))))
    if change.field == "more_nodes":
        told = re.search(r"with (\d+) ", change.sentence)
        assert told
        able = [each for each in situation.nodes if each.gpu_type == job.gpu_type and not each.windows
                and each.slots == int(told[1]) and may_run(job, each)]  # fmt: skip
        like = min(able, key=lambda each: (each.id in job.excluded_nodes, each.id))
        names = [f"{named}{number:04}" for number in range(int(change.value))]
        new = [replace(like, id=name, hostname=name, rack=name, free_slots=tuple(range(like.slots)),
                       state=NodeState.READY) for name in names]  # fmt: skip
        return replace(situation, nodes=(*situation.nodes, *new))
    if change.field == "priority":
        return replace(situation, pending=(*others, replace(job, priority=int(change.value))))
    return replace(situation, pending=(*others, changed(job, change, situation.now_ms)))


def changed(job: PendingJob, change: Change, now_ms: int) -> PendingJob:
    anew = replace(job, submitted_ms=now_ms, waiting_since_ms=now_ms)
    wanted = job.constraints
    match change.field, change.value:
        case "num_gpus", int(gpus):
            return replace(anew, num_gpus=gpus, min_gpus=gpus)
        case "max_runtime_ms", int(limit):
            return replace(anew, max_runtime_ms=limit)
        case "gpu_type", str(gpu_type):
            return replace(anew, gpu_type=gpu_type)
        case "node_labels", _:
            return replace(anew, constraints=wanted._replace(labels=()))
        case "excluded_nodes", _:
            return replace(anew, constraints=wanted._replace(excluded_nodes=()))
        case "max_racks", _:
            return replace(anew, constraints=wanted._replace(max_racks=0))
        case "tolerations", str(taints):
            return replace(
                anew, constraints=wanted._replace(tolerations=(*wanted.tolerations, *taints.split()))
            )
    raise AssertionError(change)


def may_run(job: PendingJob, each: object) -> bool:
    alone = snapshot([replace(each, state=node("a").state, free_slots=(0,), windows=())], [])  # type: ignore[type-var]
    lone = replace(job, num_gpus=1, min_gpus=1, constraints=job.constraints._replace(max_racks=0))
    wide = (team(job.team, gpu_type=job.gpu_type),)
    return bool(plan(replace(alone, pending=(lone,), teams=wide)).placements)


def starts(situation: Snapshot, policy: Policy, job_id: str) -> bool:
    return job_id in [job.id for job, _ in decide(situation, policy).started]


def said(queue: Sequence[PendingJob], situation: Snapshot, policy: Policy = RESERVES) -> dict[str, str]:
    return {each.field: each.sentence for each in changes(situation, policy, queue[-1].id)}


def test_a_smaller_gang_would_start_on_what_is_free() -> None:
    queue = [pending("x", 8)]
    held = [running("old", {"a": range(3)})]
    told = said(queue, snapshot([node("a", free=5)], queue, held=held, teams=[team(used=3)]))
    assert told == {
        "num_gpus": "5 GPUs of a100 instead of 8",
        "more_nodes": "1 more node with 8 GPUs of a100",
    }


def test_a_smaller_one_may_come_before_what_took_the_last_place() -> None:
    """Nothing that fits its CPUs is left after the round, but with one GPU it comes before the last job."""
    large = pending("1", 3, cpus_per_gpu=2)
    queue = [pending("0", 2), large, pending("2", 1)]
    nodes = [node("n0", slots=3, cpus=12), *(node(f"n{n}", slots=1, cpus=1) for n in (1, 2, 3))]
    situation = snapshot(nodes, queue, teams=[team(maximum=3)])
    told = {each.field: each.sentence for each in changes(situation, Policy(), large.id)}
    assert told["num_gpus"] == "1 GPU of a100 instead of 3"


def test_a_shorter_one_would_end_before_the_kept_place_is_needed() -> None:
    held = [running("old", {"a": range(6)}, expected_end_ms=NOW_MS + HOUR_MS)]
    queue = [pending("first", 8, submitted_ms=NOW_MS - HOUR_MS), pending("x", 2, max_runtime_ms=5 * HOUR_MS)]
    told = said(queue, snapshot([node("a", free=2)], queue, held=held, teams=[team(used=6)]))
    assert told["max_runtime_ms"] == "a limit of 54 min instead of 5 h"
    assert told["priority"].startswith("priority 4"), "just before the first, who has waited for an hour"


def test_the_longest_limit_that_fits_before_maintenance() -> None:
    windows = [(NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS)]
    queue = [pending("x", 2, max_runtime_ms=3 * HOUR_MS)]
    told = said(queue, snapshot([node("a", windows=windows)], queue))
    assert told == {"max_runtime_ms": "a limit of 1 h 48 min instead of 3 h"}


def test_another_type_with_a_quota_and_free_slots_is_named() -> None:
    queue = [pending("x", 8)]
    nodes = [node("a", free=0), node("h", gpu_type="h100"), node("v", gpu_type="v100")]
    teams = [team(used=8), team(gpu_type="h100")]
    told = said(queue, snapshot(nodes, queue, teams=teams))
    assert told["gpu_type"] == "h100 instead of a100"


@pytest.mark.parametrize(
    ("wanted", "marks", "field", "sentence"),
    [
        (Constraints(labels=(("nvlink", "yes"),)), {}, "node_labels", "nodes without nvlink=yes"),
        (Constraints(), {"taints": ["lab"]}, "tolerations", "tolerance of the taint lab"),
        (Constraints(excluded_nodes=("free",)), {}, "excluded_nodes", "leave to use free"),
    ],
)
def test_the_condition_that_binds_is_named(
    wanted: Constraints, marks: dict[str, list[str]], field: str, sentence: str
) -> None:
    queue = [pending("x", 8, constraints=wanted)]
    nodes = [node("full", free=0, labels={"nvlink": "yes"}), node("free", **marks)]  # type: ignore[arg-type]
    assert said(queue, snapshot(nodes, queue))[field] == sentence


def test_the_least_urgent_priority_that_is_enough() -> None:
    queue = [
        pending("first", 8, priority=30),
        pending("second", 8, priority=40),
        pending("x", 8, priority=90),
    ]
    told = said(queue, snapshot([node("a"), node("b")], queue))
    assert told["priority"] == "priority 39 instead of 90"


def test_who_would_be_stopped_for_a_more_urgent_one_is_counted() -> None:
    held = [
        replace(running("old", {"a": range(8)}, expected_end_ms=NOW_MS + 9 * HOUR_MS), asks=pending("old", 8))
    ]
    queue = [pending("x", 8, priority=50)]
    situation = snapshot([node("a", free=0)], queue, held=held, teams=[team(used=8)])
    told = said(queue, situation, Policy(evicts=True))
    assert told["priority"] == "priority 49 instead of 50; 1 job would save and stop for it first"


def test_the_quota_that_is_enough_for_those_ahead_too() -> None:
    queue = [pending("first", 4, submitted_ms=NOW_MS - 1), pending("x", 4)]
    situation = snapshot([node("a"), node("b", free=0)], queue, teams=[team(used=8, maximum=10)])
    told = said(queue, situation)
    assert told["maximum"] == "a quota of 16 GPUs of a100 for team vision instead of 10"


def test_only_as_many_nodes_more_as_what_is_free_leaves_open() -> None:
    held = [running(f"old-{name}", {name: range(2)}) for name in "abc"]
    queue = [pending("x", 8)]
    nodes = [*[node(name, slots=2, free=0) for name in "abc"], node("d", slots=2)]
    told = said(queue, snapshot(nodes, queue, held=held, teams=[team(used=6)]))
    assert told["more_nodes"] == "3 more nodes with 2 GPUs of a100"


def test_whoever_starts_anyway_needs_no_change() -> None:
    queue = [pending("x", 8)]
    assert said(queue, snapshot([node("a")], queue)) == {}


def test_who_is_not_in_the_queue_has_no_answer() -> None:
    assert changes(snapshot([node("a")], []), Policy(), "job-gone") == ()


@given(
    situation=snapshots(),
    policy=st.sampled_from([Policy(), Policy(skip_ahead=False), RESERVES, STOPS]),
    named=st.sampled_from(["!a", "node-n1b", "r1", "~zz"]),
)
@settings(deadline=None)
def test_every_change_that_is_told_starts_the_job_when_it_is_made(
    situation: Snapshot, policy: Policy, named: str
) -> None:
    for wait in plan(situation, policy).waits:
        for change in changes(situation, policy, wait.job_id):
            after = applied(situation, wait.job_id, change, named)
            if change.stops:
                assert wait.job_id in {stop.for_job for stop in decide(after, policy).stops}
            else:
                assert starts(after, policy, wait.job_id), (change, wait)


@given(situation=snapshots())
@settings(deadline=None)
def test_a_smaller_one_that_fits_what_nobody_took_is_always_found(situation: Snapshot) -> None:
    """Where one slot of its kind is left after the round, some answer is told, if only a smaller job."""
    for wait in plan(situation).waits:
        (job,) = [each for each in situation.pending if each.id == wait.job_id]
        single = replace(
            job, num_gpus=1, min_gpus=1, submitted_ms=situation.now_ms, waiting_since_ms=situation.now_ms
        )
        others = tuple(each for each in situation.pending if each.id != job.id)
        if job.num_gpus > 1 and starts(replace(situation, pending=(*others, single)), Policy(), job.id):
            assert changes(situation, Policy(), job.id)


def test_a_large_cluster_is_asked_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Snapshot] = []

    def counted(situation: Snapshot, policy: Policy) -> object:
        asked.append(situation)
        return decide(situation, policy)

    monkeypatch.setattr("platform_core.scheduling.forecast.changes.decide", counted)
    queue = [pending(f"{n:03}", 64, submitted_ms=NOW_MS + n, max_runtime_ms=9 * HOUR_MS) for n in range(50)]
    queue += [pending("x", 512, submitted_ms=NOW_MS + 99, max_runtime_ms=9 * HOUR_MS, least=256)]
    changes(snapshot([node(f"{n}", free=n % 8) for n in range(100)], queue), RESERVES, queue[-1].id)
    assert len(asked) <= 5 * TRIES
