"""What a waiting job is told."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.scheduling.decisions import Wait, WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import GIB, node, pending, running, snapshot, team


def only_wait(nodes: list[NodeView], job: PendingJob, **more: object) -> Wait:
    [wait] = plan(snapshot(nodes, [job], **more)).waits  # type: ignore[arg-type]
    return wait


def test_too_few_free_slots_names_the_largest_holder() -> None:
    nodes = [node("a", slots=2, free=1), node("b", slots=2, free=0), node("c", slots=2, free=2)]
    held = [running("old", {"b": (0, 1)}, team="nlp"), running("tiny", {"a": (0,)}, team="nlp")]
    wait = only_wait(nodes, pending("x", 4), held=held)
    assert wait.code is WaitCode.NO_FREE_SLOTS
    assert wait.numbers == (("needed", 4), ("free", 3), ("free_nodes", 2), ("position", 1))
    assert wait.sentence == ("needs 4 GPUs of a100; 3 are free on 2 nodes; b holds 2 for job-old (team nlp)")


def test_slots_of_cpu_are_called_slots() -> None:
    wait = only_wait([node("a", slots=2, free=0, gpu_type="cpu")], pending("x", 1, gpu_type="cpu"))
    assert wait.sentence == "needs 1 slot of cpu; none is free"


def test_a_holder_on_several_nodes_is_said_with_all_it_holds() -> None:
    nodes = [node("a", slots=2, free=0), node("b", slots=2, free=0)]
    wait = only_wait(nodes, pending("x", 1), held=[running("old", {"a": (0, 1), "b": (0, 1)})])
    assert wait.sentence.endswith("a and 1 more hold 4 for job-old (team vision)")


def test_enough_free_slots_in_the_wrong_places_is_fragmentation() -> None:
    nodes = [node("a", slots=4, free=3), node("b", slots=4, free=1)]
    wait = only_wait(nodes, pending("x", 4))
    assert wait.code is WaitCode.FRAGMENTED
    assert wait.sentence == (
        "needs 4 GPUs of a100 on one node or in equal parts; 4 are free but spread over 2 nodes, at most 3 on one"
    )
    assert dict(wait.numbers)["most_on_one_node"] == 3


def test_a_job_beaten_to_the_slots_in_this_round_is_behind() -> None:
    queue = [pending("first", 3, priority=1), pending("second", 2)]
    [wait] = plan(snapshot([node("a", slots=4)], queue)).waits
    assert (wait.job_id, wait.code) == ("job-second", WaitCode.BEHIND)
    assert wait.sentence == (
        "needs 2 GPUs of a100; 1 job ahead of it took the free GPUs in this round, 1 is left"
    )


def test_in_strict_order_the_later_job_waits_its_turn() -> None:
    queue = [pending("big", 8, priority=1), pending("small", 1)]
    big, small = plan(snapshot([node("a", free=4)], queue), Policy(skip_ahead=False)).waits
    assert big.code is WaitCode.NO_FREE_SLOTS
    assert (small.code, small.sentence) == (
        WaitCode.BEHIND,
        "waits its turn: job-big is first and does not fit yet",
    )


def test_a_full_quota_is_said_with_the_numbers_and_the_own_holder() -> None:
    held = [running("old", {"a": (0, 1, 2, 3)})]
    wait = only_wait([node("a", free=4)], pending("x", 4), held=held, teams=[team(maximum=6, used=4)])
    assert wait.code is WaitCode.QUOTA
    assert wait.sentence == (
        "would exceed quota: 8/6 GPUs of a100; team vision holds 4, a holds 4 for job-old"
    )
    assert wait.numbers == (("needed", 4), ("held", 4), ("maximum", 6), ("position", 1))


def test_a_request_above_the_maximum_can_never_start_under_this_quota() -> None:
    wait = only_wait([node("a")], pending("x", 4), teams=[team(maximum=3)])
    assert wait.sentence == "would exceed quota: 4/3 GPUs of a100; it can never start under this quota"


def test_a_team_without_a_quota_is_told_who_can_give_one() -> None:
    wait = only_wait([node("a")], pending("x", 4), teams=[])
    assert wait.code is WaitCode.QUOTA
    assert wait.sentence == "team vision has no quota for a100; a lead or an admin can give it one"


def test_an_unknown_gpu_type_is_missing() -> None:
    wait = only_wait([node("a")], pending("x", 4, gpu_type="h100"))
    assert wait.code is WaitCode.GPU_TYPE_MISSING
    assert wait.sentence == "no node has h100: ask for another type or add one"


def test_a_gang_larger_than_the_cluster_can_never_start() -> None:
    wait = only_wait([node("a", free=0), node("b", state=NodeState.LOST)], pending("x", 32))
    assert wait.code is WaitCode.CANNOT_EVER_FIT
    assert wait.sentence == "can never start: needs 32 GPUs of a100; the cluster has 16 at most"


def test_a_gang_that_only_fits_in_unequal_parts_can_never_start() -> None:
    wait = only_wait([node("a", slots=4), node("b", slots=2)], pending("x", 5))
    assert wait.sentence == (
        "can never start: needs 5 GPUs of a100 in equal parts; no equal split fits nodes of at most 4"
    )


def test_a_share_of_cpus_no_node_has_can_never_start() -> None:
    wait = only_wait([node("a", slots=2, cpus=8, memory_bytes=8 * GIB)], pending("x", 1, cpus_per_gpu=16))
    assert wait.code is WaitCode.CANNOT_EVER_FIT
    assert wait.sentence == (
        "can never start: asks 16 CPUs and 1024 MiB for 1 GPU of a100; "
        "the nodes have 4 CPUs and 4096 MiB for each at most"
    )


def test_a_job_waits_for_a_node_it_has_not_failed_on_while_there_is_one() -> None:
    wait = only_wait([node("a", free=0), node("b")], pending("x", 8, excluded=["b"]))
    assert wait.code is WaitCode.NO_FREE_SLOTS


def test_nodes_out_of_service_are_named() -> None:
    failing = replace(node("d"), out_of_service=True)
    nodes = [node("a"), node("b", state=NodeState.DRAINING), node("c", state=NodeState.LOST), failing]
    wait = only_wait(nodes, pending("x", 32))
    assert wait.code is WaitCode.NODES_DRAINING
    assert wait.sentence == (
        "needs 32 GPUs of a100; the nodes in service have 8; b is draining, c is lost, d is out of service"
    )


def test_a_suspect_node_takes_no_work_but_is_expected_back() -> None:
    wait = only_wait([node("a", state=NodeState.SUSPECT)], pending("x", 4))
    assert wait.code is WaitCode.NO_FREE_SLOTS


def test_many_waiting_jobs_count_their_positions_for_each_type() -> None:
    queue = [pending("a1", 8), pending("c1", 8, gpu_type="cpu"), pending("a2", 8)]
    nodes = [node("a", free=0), node("c", free=0, gpu_type="cpu")]
    positions = {wait.job_id: dict(wait.numbers)["position"] for wait in plan(snapshot(nodes, queue)).waits}
    assert positions == {"job-a1": 1, "job-c1": 1, "job-a2": 2}


def test_an_empty_queue_makes_an_empty_plan() -> None:
    empty = plan(snapshot([], []))
    assert (empty.placements, empty.waits, empty.order, empty.preemptions) == ((), (), (), ())


def test_free_slots_where_it_failed_are_named_so_that_nobody_wonders():
    wait = only_wait([node("a", free=0), node("b", free=3)], pending("x", 8, excluded=["b"]))
    assert wait.sentence == "needs 8 GPUs of a100; none is free; 3 are free on b, where it failed before"
