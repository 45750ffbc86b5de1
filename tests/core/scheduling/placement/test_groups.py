"""Tensor and context groups of a layout lie whole on one node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.spec import parse
from platform_core.scheduling.decisions import Plan, WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.placement.search import equal_splits, whole_groups
from platform_core.scheduling.preemption.elastic import sizes
from tests.core.scheduling.situations import node, pending, snapshot


def laid_out(name: str, gpus: int, *, least: int = 0, **layout: int) -> PendingJob:
    parallel = Parallel(**layout)  # type: ignore[arg-type]
    group = parallel.tp * parallel.cp
    return replace(
        pending(name, gpus, least=least), tensor=parallel.tp, group=group, replica=parallel.replica
    )


def planned(nodes: list[NodeView], *jobs: PendingJob) -> Plan:
    return plan(snapshot(nodes, list(jobs)))


def shares(found: Plan) -> list[int]:
    return [len(seat.slots) for placement in found.placements for seat in placement.members]


def test_a_spec_brings_its_groups() -> None:
    fields = {"name": "a", "team": "vision", "command": "python train.py", "gpu_type": "a100", "num_gpus": 16}
    spec = parse({**fields, "parallel": {"tp": 2, "cp": 2, "pp": 2}})
    job = PendingJob.of_spec(spec, id="job-a", user="alice", submitted_ms=0, waiting_since_ms=0)
    assert (job.tensor, job.group, job.replica) == (2, 4, 8)
    plain = PendingJob.of_spec(parse(fields), id="job-a", user="alice", submitted_ms=0, waiting_since_ms=0)
    assert (plain.tensor, plain.group, plain.replica) == (1, 1, 1)


def test_a_tensor_group_is_not_cut() -> None:
    """Twelve GPUs on nodes of six: two parts of six would cut the second group of four."""
    nodes = [node(f"n{number}", slots=6) for number in range(3)]
    assert shares(planned(nodes, pending("plain", 12))) == [6, 6]
    assert shares(planned(nodes, laid_out("grouped", 12, tp=4))) == [4, 4, 4]


def test_tensor_and_context_ranks_lie_together_where_a_node_has_slots_for_both() -> None:
    nodes = [node(f"n{number}", slots=6) for number in range(6)]
    assert shares(planned(nodes, laid_out("both", 12, tp=2, cp=2))) == [4, 4, 4]
    # Eight together fit no node of six, so only the tensor ranks do.
    assert shares(planned(nodes, laid_out("apart", 16, tp=2, cp=4))) == [4, 4, 4, 4]


def test_a_gang_that_would_have_to_cut_its_groups_waits_and_says_so() -> None:
    nodes = [node("n1", free=3), node("n2", free=3), node("n3", free=2)]
    found = planned(nodes, laid_out("grouped", 8, tp=4))
    assert not found.placements
    [wait] = found.waits
    assert wait.code is WaitCode.FRAGMENTED
    assert "in equal parts of whole groups of 4 (tp 4); 8 are free but spread over 3 nodes" in wait.sentence


def test_a_tensor_group_that_no_node_could_ever_hold_is_refused() -> None:
    [wait] = planned([node(f"n{number}", slots=4) for number in range(4)], laid_out("big", 8, tp=8)).waits
    assert wait.code is WaitCode.CANNOT_EVER_FIT
    assert wait.sentence == (
        "can never start: its tensor ranks need 8 GPUs of a100 on one node; no node has more than 4"
    )


def test_an_elastic_job_begins_with_whole_replicas() -> None:
    nodes = [node(f"n{number}", slots=4) for number in range(5)]
    assert sum(shares(planned(nodes, laid_out("elastic", 24, least=8, tp=4, pp=2)))) == 16


LAYOUTS = st.builds(
    Parallel, fsdp=st.integers(1, 4), tp=st.integers(1, 4), cp=st.integers(1, 3), pp=st.integers(1, 3),
    ep=st.integers(1, 4),
)  # fmt: skip


@given(LAYOUTS, st.integers(1, 6), st.integers(1, 6), st.integers(1, 16))
def test_elastic_sizes_are_whole_replicas_with_the_least_among_them(
    parallel: Parallel, most: int, least: int, node_slots: int
) -> None:
    gpus, at_least = max(most, least) * parallel.replica, min(most, least) * parallel.replica
    job = replace(pending("x", gpus, least=at_least), replica=parallel.replica)
    found = list(sizes(job, node_slots))
    assert found[0] == gpus
    assert found[-1] == at_least
    assert found == sorted(set(found), reverse=True)
    assert all(size % parallel.replica == 0 and at_least <= size <= gpus for size in found)


@given(st.integers(1, 24), st.integers(1, 6), st.integers(1, 24), st.integers(1, 16))
def test_elastic_sizes_without_a_layout_are_as_before(
    gpus: int, least: int, resize_to: int, node_slots: int
) -> None:
    job = replace(pending("x", gpus, least=min(least, gpus)), resize_to=min(resize_to, gpus))
    most = job.resize_to or gpus
    expected, size = [most], most - 1
    while size >= job.min_gpus:
        if size > node_slots and size % node_slots:
            size -= size % node_slots
            continue
        expected.append(size)
        size -= 1 if size <= node_slots else node_slots
    if node_slots < job.min_gpus < most and job.min_gpus % node_slots:
        expected.append(job.min_gpus)
    assert list(sizes(job, node_slots)) == expected


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.integers(1, 24))
def test_every_split_keeps_the_groups_whole(tensor: int, context: int, count: int, node_slots: int) -> None:
    gpus, group = tensor * context * count, tensor * context
    splits = equal_splits(gpus, node_slots)
    together = group if group <= node_slots else tensor
    found = whole_groups(splits, gpus, tensor, group, node_slots)
    assert found == tuple(parts for parts in splits if gpus // parts % together == 0)
    assert bool(found) == (tensor <= node_slots)
    for parts in found:
        share = gpus // parts
        node_of = [rank // share for rank in range(gpus)]  # ranks are numbered node by node
        groups = [node_of[first : first + together] for first in range(0, gpus, together)]
        assert all(len(set(nodes)) == 1 for nodes in groups)


@pytest.mark.parametrize("gpus", [4, 6, 8, 12])
def test_a_job_without_a_layout_is_placed_as_before(gpus: int) -> None:
    nodes = [node(f"n{number}", slots=6) for number in range(4)]
    expected = next(parts for parts in range(1, gpus + 1) if gpus % parts == 0 and gpus // parts <= 6)
    assert shares(planned(nodes, pending("plain", gpus))) == [gpus // expected] * expected
