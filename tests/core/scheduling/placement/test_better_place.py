"""Jobs of which the planner knows the step time of each place: which they take, and which they wait for."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import PendingJob, PlaceStep, RunningJob, Snapshot
from platform_core.scheduling.decisions import Plan, WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.placement.better_place import Offer, left_for
from platform_core.scheduling.policy import Policy
from platform_core.units import HOUR_MS
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot

POLICY = Policy("first_come", reservations=4, place_wait_ms=6 * HOUR_MS)
ONE_NODE, TWO_NODES = PlaceStep(1, 1, 1_000_000), PlaceStep(2, 2, 1_200_000)
ONE_RACK, TWO_RACKS = PlaceStep(2, 1, 1_000_000), PlaceStep(2, 2, 1_500_000)


def trainer(gpus: int, *steps: PlaceStep, hours: int = 10, offered_ms: int = 0) -> PendingJob:
    job = pending("gang", gpus, max_runtime_ms=hours * HOUR_MS)
    return replace(job, place_steps=steps, offered_ms=offered_ms)


def half_free(end_minutes: int, job: PendingJob) -> Snapshot:
    """Two nodes with four free slots each; a whole one is free in so many minutes."""
    ends_ms = NOW_MS + end_minutes * MINUTE_MS
    held = [
        running("left", {"a": range(4)}, expected_end_ms=ends_ms),
        running("right", {"b": range(4)}, expected_end_ms=NOW_MS + 900 * HOUR_MS),
    ]
    return snapshot([node("a", free=4), node("b", free=4)], [job], held=held)


def far_racks(end_minutes: int, job: PendingJob) -> Snapshot:
    """A free node in each of two racks; a second one of the first rack is free in so many minutes."""
    nodes = [node("a", rack="r1"), node("b", rack="r1", free=0), node("c", rack="r2")]
    held = running("next", {"b": range(8)}, expected_end_ms=NOW_MS + end_minutes * MINUTE_MS)
    return snapshot(nodes, [job], held=[held])


def places(found: Plan) -> list[list[str]]:
    return [[seat.node for seat in placement.members] for placement in found.placements]


def test_of_the_free_places_it_takes_the_one_with_the_shortest_step() -> None:
    nodes = [node("a", rack="r1"), node("b", rack="r2"), node("c", rack="r2")]
    found = plan(snapshot(nodes, [trainer(16, ONE_RACK, TWO_RACKS)]), POLICY)
    assert places(found) == [["node-b", "node-c"]]


def test_it_starts_on_more_nodes_than_it_needs_where_a_whole_one_is_far_off() -> None:
    found = plan(half_free(300, trainer(8, ONE_NODE, TWO_NODES)), POLICY)
    assert places(found) == [["node-a", "node-b"]]
    assert "by the planner a step takes 20 % longer than on 1 node" in found.placements[0].reason


def test_it_waits_for_a_whole_node_that_is_free_before_it_would_lose_as_much() -> None:
    found = plan(half_free(30, trainer(8, ONE_NODE, TWO_NODES)), POLICY)
    assert not found.placements
    (wait,) = found.waits
    assert wait.code is WaitCode.BETTER_PLACE
    assert wait.sentence == (
        "needs 8 GPUs of a100 and could start on 2 nodes, where by the planner a step takes 20 % longer than on 1 "
        "node: 2 h over its run; it waits for that, expected in 30 min, and takes what is free after 2 h"
    )
    assert wait.place == ("node-a",)
    assert dict(wait.numbers)["offered_ms"] == NOW_MS


def test_it_waits_for_a_second_node_of_its_rack() -> None:
    found = plan(far_racks(30, trainer(16, ONE_RACK, TWO_RACKS)), POLICY)
    assert [wait.code for wait in found.waits] == [WaitCode.BETTER_PLACE]
    assert "than on 2 nodes in one rack" in found.waits[0].sentence
    assert found.waits[0].place == ("node-a", "node-b")


def test_a_short_run_does_not_wait_for_it() -> None:
    assert places(plan(far_racks(30, trainer(16, ONE_RACK, TWO_RACKS, hours=1)), POLICY))
    known = replace(trainer(16, ONE_RACK, TWO_RACKS), planned_ms=50 * MINUTE_MS)
    assert places(plan(far_racks(30, known), POLICY)) == [["node-a", "node-c"]]


def test_the_time_that_it_has_left_places_counts() -> None:
    patient = trainer(8, ONE_NODE, TWO_NODES, offered_ms=NOW_MS - 80 * MINUTE_MS)
    assert not plan(half_free(30, patient), POLICY).placements
    tired = trainer(8, ONE_NODE, TWO_NODES, offered_ms=NOW_MS - 100 * MINUTE_MS)
    assert plan(half_free(30, tired), POLICY).placements


def test_an_operator_can_bound_the_wait() -> None:
    impatient = replace(POLICY, place_wait_ms=10 * MINUTE_MS)
    assert plan(half_free(30, trainer(8, ONE_NODE, TWO_NODES)), impatient).placements
    never = replace(POLICY, place_wait_ms=0)
    assert [wait.code for wait in plan(half_free(30, trainer(8, ONE_NODE, TWO_NODES)), never).waits] == [
        WaitCode.FRAGMENTED
    ]
    assert places(plan(far_racks(1, trainer(16, ONE_RACK, TWO_RACKS)), never))


def test_a_place_where_it_would_crawl_is_no_place() -> None:
    crawling = trainer(8, ONE_NODE, PlaceStep(2, 2, 5_000_000))
    assert [wait.code for wait in plan(half_free(9_000, crawling), POLICY).waits] == [WaitCode.FRAGMENTED]


def test_a_job_behind_it_may_use_the_place_that_it_left_but_not_the_one_it_waits_for() -> None:
    waiting = trainer(8, ONE_NODE, TWO_NODES)
    behind = pending("later", 4, submitted_ms=NOW_MS + 1, max_runtime_ms=100 * HOUR_MS)
    found = plan(replace(half_free(30, waiting), pending=(waiting, behind)), POLICY)
    assert places(found) == [["node-b"]]


OFFERS = st.builds(
    Offer,
    st.builds(PlaceStep, st.just(1), st.just(1), st.integers(1_000, 3_000)),
    st.integers(NOW_MS + 1, NOW_MS + 20 * HOUR_MS),
)


@given(
    st.integers(1_000, 3_000), st.lists(OFFERS, max_size=4), st.integers(0, 20 * HOUR_MS), st.integers(0, 8 * HOUR_MS),
    st.integers(0, 6 * HOUR_MS),
)  # fmt: skip
def test_it_never_waits_where_it_would_end_later_nor_past_its_bound(
    now_us: int, later: list[Offer], left_ms: int, waited_ms: int, limit_ms: int
) -> None:
    now = Offer(PlaceStep(2, 2, now_us), NOW_MS)
    left = left_for(
        now, later, fastest_us=1_000, left_ms=left_ms, offered_ms=NOW_MS - waited_ms, limit_ms=limit_ms
    )
    if left is None:
        return
    ends = {offer: offer.start_ms + left_ms * offer.step.step_us // 1_000 for offer in (now, left.later)}
    assert ends[left.later] <= ends[now]
    assert left.later.start_ms <= left.until_ms <= left.since_ms + min(limit_ms, left.lost_ms)


@st.composite
def delays(draw: st.DrawFn) -> tuple[Snapshot, list[int]]:
    """Nodes half in use by jobs that hold them as long as they like, whatever was expected; and the minutes between
    looks, of which sixty are more than the longest bound of six hours."""
    count = draw(st.integers(2, 5))
    nodes = [
        node(f"n{number}", free=draw(st.sampled_from([0, 4, 8])), rack=draw(st.sampled_from(["r1", "r2"])))
        for number in range(count)
    ]
    held: list[RunningJob] = []
    for number, each in enumerate(nodes):
        taken = sorted(set(range(8)) - set(each.free_slots))
        if taken:
            ends_ms = NOW_MS + draw(st.integers(1, 600)) * MINUTE_MS
            held.append(running(f"old{number}", {f"n{number}": taken}, expected_end_ms=ends_ms))
    gpus = draw(st.sampled_from([8, 16]))
    fewest = gpus // 8
    steps = [
        PlaceStep(nodes_used, racks, draw(st.integers(1_000, 3_000)))
        for nodes_used in (fewest, 2 * fewest)
        for racks in sorted({1, nodes_used})
    ]
    steps.sort(key=lambda step: step.step_us)
    job = trainer(gpus, *steps, hours=draw(st.integers(1, 40)))
    return snapshot(nodes, [job], held=held), draw(st.lists(st.integers(8, 120), min_size=1, max_size=6))


@given(delays(), st.integers(0, 6).map(lambda hours: hours * HOUR_MS))
def test_however_late_others_end_it_leaves_places_no_longer_than_the_bound(
    case: tuple[Snapshot, list[int]], limit_ms: int
) -> None:
    now, minutes = case
    policy = replace(POLICY, place_wait_ms=limit_ms)
    first_ms: int | None = None
    for number in range(60):
        found = plan(now, policy)
        assert not violations(now, found) & {"slot given twice", "slot was not free", "gang not whole"}
        if found.placements or found.waits[0].code is not WaitCode.BETTER_PLACE:
            return
        first_ms = first_ms or now.now_ms
        assert now.now_ms - first_ms <= limit_ms
        offered_ms = int(dict(found.waits[0].numbers)["offered_ms"])
        assert offered_ms == first_ms
        job = replace(now.pending[0], offered_ms=offered_ms)
        step_ms = minutes[number % len(minutes)] * MINUTE_MS
        now = replace(now, now_ms=now.now_ms + step_ms, pending=(job,))
    raise AssertionError("it still waits")
