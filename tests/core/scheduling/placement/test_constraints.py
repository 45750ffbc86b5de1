"""Labels, taints, racks and excluded nodes: where a job may not go, and what it is told of them."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.decisions import Plan, WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot

NVLINK = Constraints(labels=(("nvlink", "yes"),))


def hosts(made: Plan) -> list[str]:
    return [seat.node for placement in made.placements for seat in placement.members]


def why(situation: Snapshot, policy: Policy | None = None) -> tuple[WaitCode, str]:
    (wait,) = plan(situation, policy).waits
    return wait.code, wait.sentence


def test_a_label_decides_where_a_job_goes() -> None:
    nodes = [node("a"), node("b", labels={"nvlink": "yes"}), node("c", labels={"nvlink": "no"})]
    assert hosts(plan(snapshot(nodes, [pending("x", 8, constraints=NVLINK)]))) == ["node-b"]


def test_nodes_that_would_do_but_for_the_label_are_told() -> None:
    nodes = [node("a"), node("b"), node("c", labels={"nvlink": "yes"}, free=3)]
    code, sentence = why(snapshot(nodes, [pending("x", 8, constraints=NVLINK)]))
    assert code is WaitCode.CONSTRAINT
    expected = "needs 8 GPUs of a100; 1 node (a) has 8 that would do, but not the label nvlink=yes"
    assert sentence == expected


def test_a_label_that_no_node_has_can_never_be_met() -> None:
    code, sentence = why(snapshot([node("a")], [pending("x", 8, constraints=NVLINK)]))
    assert code is WaitCode.CANNOT_EVER_FIT
    assert sentence.startswith("can never start: needs 8 GPUs of a100; 1 node (a) has 8 that would do")


def test_a_taint_keeps_away_whoever_does_not_tolerate_it() -> None:
    nodes = [node("a", taints=["lab"]), node("b", free=0)]
    code, sentence = why(snapshot(nodes, [pending("x", 2)]))
    assert code is WaitCode.CONSTRAINT
    assert sentence.endswith("1 node (a) has 2 that would do, but the taint lab, which it does not tolerate")
    tolerant = pending("x", 2, constraints=Constraints(tolerations=("lab",)))
    assert hosts(plan(snapshot(nodes, [tolerant]))) == ["node-a"]


def test_excluded_nodes_are_named_by_hostname_or_id_and_stay_excluded() -> None:
    for name in ("a", "node-a"):
        job = pending("x", 8, constraints=Constraints(excluded_nodes=(name,)))
        code, sentence = why(snapshot([node("a"), node("b", free=0)], [job]))
        assert (code, sentence.partition("; ")[2]) == (
            WaitCode.CONSTRAINT,
            "1 node (a) has 8 that would do, but the job excludes it",
        )


def test_a_gang_that_may_use_one_rack_waits_for_one() -> None:
    nodes = [node("a", rack="r1"), node("b", rack="r1", free=0), node("c", rack="r2")]
    gang = pending("x", 16, constraints=Constraints(max_racks=1))
    code, sentence = why(snapshot(nodes, [gang]))
    assert code is WaitCode.CONSTRAINT
    assert sentence.endswith("it would fit on 2 nodes, but in more racks than the 1 it may use")
    freed = [*nodes[:1], node("b", rack="r1"), nodes[2]]
    assert hosts(plan(snapshot(freed, [gang]))) == ["node-a", "node-b"]


def test_rather_more_nodes_than_more_racks() -> None:
    nodes = [
        node("a", rack="r1"),
        node("b", rack="r2"),
        *(node(f"c{n}", rack="r3", slots=4) for n in range(4)),
    ]
    assert len(hosts(plan(snapshot(nodes, [pending("x", 16)])))) == 2
    gang = pending("x", 16, constraints=Constraints(max_racks=1))
    assert len(hosts(plan(snapshot(nodes, [gang])))) == 4


def test_nobody_is_stopped_on_nodes_that_the_gang_could_not_use_together() -> None:
    nodes = [node(name, rack=rack, free=0) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    policy = Policy("shortest_remaining", evicts=True)
    gang = pending("x", 16)
    near = replace(gang, constraints=Constraints(max_racks=1))

    def stopped(job: PendingJob, shortest: str) -> set[str]:
        held = [
            running(
                name,
                {name: range(8)},
                expected_end_ms=NOW_MS + (20 if name == shortest else 50) * 60 * MINUTE_MS,
            )
            for name in "abc"
        ]
        return set(plan(snapshot(nodes, [job], held=held), policy).preemptions)

    assert stopped(gang, shortest="a") == {"job-b", "job-c"}
    assert stopped(near, shortest="a") == set()
    assert stopped(near, shortest="c") == {"job-a", "job-b"}
