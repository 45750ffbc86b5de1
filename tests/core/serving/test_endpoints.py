"""Replicas, scaling and canaries of an endpoint, followed over time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.autoscaling import Reading, ScalingPolicy, scale
from platform_core.serving.canary import CanaryPolicy, Continue, Promote, RollBack, Traffic, Watch, judge
from platform_core.serving.latency import BUCKETS, bucket_of
from platform_core.serving.quality import Quality
from platform_core.serving.replicas import Drain, Endpoint, Replica, Start, Stop, plan, state_of
from platform_core.serving.states import EndpointState, ReplicaState

STATES = st.sampled_from(list(ReplicaState))
REPLICAS = st.lists(
    st.tuples(st.sampled_from(["v1", "v2", "v3"]), STATES, st.integers(0, 60_000)), max_size=8
)


def _steps(endpoint: Endpoint, replicas: list[Replica], now_ms: int) -> list[Replica]:
    """Carries the plan out as the shell does, and lets each replica come up or end."""
    after = {one.id: one for one in replicas}
    for number, action in enumerate(plan(endpoint, replicas, now_ms)):
        match action:
            case Start(version):
                key = f"r{now_ms}-{number}"
                after[key] = Replica(key, version, ReplicaState.WAITING, now_ms)
            case Drain(key):
                after[key] = replace(after[key], state=ReplicaState.DRAINING, since_ms=now_ms)
            case Stop(key):
                del after[key]
    following = {ReplicaState.WAITING: ReplicaState.STARTING, ReplicaState.STARTING: ReplicaState.READY}
    return [
        replace(one, state=following[one.state], since_ms=now_ms) if one.state in following else one
        for one in after.values()
        if one.state is not ReplicaState.ENDED
    ]


@given(REPLICAS, st.integers(0, 4), st.sampled_from(["", "v2"]), st.integers(0, 10_000))
def test_every_beginning_settles_on_what_is_wanted(
    made: list[tuple[str, ReplicaState, int]], wanted: int, canary: str, share: int
) -> None:
    endpoint = Endpoint("v1", wanted, canary, share)
    replicas = [Replica(f"r{n}", version, state, since) for n, (version, state, since) in enumerate(made)]
    ready_before = any(one.state is ReplicaState.READY for one in replicas)
    for round in range(30):
        replicas = _steps(endpoint, replicas, 60_000 + 5_000 * round)
        if ready_before and wanted:
            assert any(one.state is ReplicaState.READY for one in replicas), "it stopped answering"
    by_version = {
        version: [one for one in replicas if one.version == version] for version in ("v1", "v2", "v3")
    }
    assert len(by_version["v1"]) == wanted
    assert len(by_version["v2"]) == (endpoint.canary_replicas if canary else 0)
    assert not by_version["v3"]
    assert not plan(endpoint, replicas, 999_999)


def test_a_new_version_takes_over_one_by_one() -> None:
    old = [Replica(f"o{n}", "v1", ReplicaState.READY, 0) for n in range(3)]
    assert plan(Endpoint("v2", 3), old, 0) == (Start("v2"),) * 3
    coming = [Replica("n0", "v2", ReplicaState.READY, 0), Replica("n1", "v2", ReplicaState.STARTING, 0),
              Replica("n2", "v2", ReplicaState.STARTING, 0)]  # fmt: skip
    assert plan(Endpoint("v2", 3), [*old, *coming], 0) == (Drain("o2"),)


def test_a_full_cluster_gives_up_an_old_replica_for_a_new_one_but_never_the_last() -> None:
    old = [Replica(f"o{n}", "v1", ReplicaState.READY, 0) for n in range(2)]
    waits = [Replica(f"n{n}", "v2", ReplicaState.WAITING, 0) for n in range(2)]
    assert plan(Endpoint("v2", 2), [*old, *waits], 31_000) == (Drain("o1"),)
    assert plan(Endpoint("v2", 2), [old[0], *waits], 31_000) == ()


def test_a_canary_that_gets_no_slots_takes_those_of_the_stable_version_but_never_the_last() -> None:
    stable = [Replica(f"o{n}", "v1", ReplicaState.READY, 0) for n in range(2)]
    waits = Replica("n0", "v2", ReplicaState.WAITING, 0)
    endpoint = Endpoint("v1", 2, "v2", 5_000)
    assert plan(endpoint, [*stable, waits], 29_000) == ()
    assert plan(endpoint, [*stable, waits], 31_000) == (Drain("o1"),)
    draining = replace(stable[1], state=ReplicaState.DRAINING, since_ms=31_000)
    assert plan(endpoint, [stable[0], draining, waits], 32_000) == ()
    assert plan(replace(endpoint, freeing=True), [stable[0], waits], 36_000) == ()
    assert plan(endpoint, [stable[0], waits], 36_000) == ()
    assert plan(replace(endpoint, wanted=1), [stable[0], waits], 36_000) == ()


@pytest.mark.parametrize("share", [1_000, 5_000, 10_000])
@pytest.mark.parametrize("wanted", [2, 5])
def test_a_new_version_takes_over_within_a_quota_that_the_old_one_fills(wanted: int, share: int) -> None:
    endpoint = Endpoint("v1", wanted, "v2", share)
    replicas = [Replica(f"o{n}", "v1", ReplicaState.READY, 0) for n in range(wanted)]
    for round in range(200):
        if endpoint.canary and any(
            (one.version, one.state) == ("v2", ReplicaState.READY) for one in replicas
        ):
            endpoint = Endpoint("v2", wanted)
        actions = plan(endpoint, replicas, 5_000 * round)
        refused = len(replicas) >= wanted and any(isinstance(action, Start) for action in actions)
        replicas = _steps(replace(endpoint, refused=refused), replicas, 5_000 * round)
        replicas = replicas[:wanted]  # those that were refused are started last
        assert any(one.state is ReplicaState.READY for one in replicas), "it stopped answering"
    assert [one.version for one in replicas] == ["v2"] * wanted


def test_a_stopped_endpoint_ends_all_of_its_replicas() -> None:
    endpoint = Endpoint("v1", 2, stopped=True)
    replicas = [Replica("a", "v1", ReplicaState.READY, 0), Replica("b", "v1", ReplicaState.WAITING, 0)]
    assert set(plan(endpoint, replicas, 0)) == {Drain("a"), Stop("b")}
    assert state_of(endpoint, replicas) is EndpointState.STOPPING
    assert state_of(endpoint, []) is EndpointState.STOPPED


@given(
    st.lists(st.builds(Reading, st.integers(0, 600_000), st.floats(0, 200), st.integers(0, 100),
                       st.none() | st.floats(1, 5_000)), max_size=30),
    st.integers(0, 12), st.integers(0, 3), st.integers(1, 9),
)  # fmt: skip
def test_scaling_stays_within_its_limits_and_never_ends_the_last_under_load(
    readings: list[Reading], current: int, low: int, more: int
) -> None:
    policy = ScalingPolicy(minimum=low, maximum=low + more, target_latency_ms=200)
    readings = sorted(readings, key=lambda reading: reading.at_ms)
    scaled = scale(policy, readings, current, 600_000)
    assert low <= scaled.replicas <= low + more
    recently = any(one.requests for one in readings if one.at_ms > 600_000 - policy.idle_ms)
    if recently and current:
        assert scaled.replicas >= 1


def test_it_grows_at_once_and_shrinks_only_after_a_while() -> None:
    policy = ScalingPolicy(minimum=1, maximum=8, target_concurrency=4, down_after_ms=60_000)
    burst = [Reading(at, 15, 100) for at in range(90_000, 100_001, 1_000)]
    assert scale(policy, burst, 1, 100_000).replicas == 4
    quiet = [*burst, *(Reading(at, 1, 5) for at in range(101_000, 130_001, 1_000))]
    assert scale(policy, quiet, 4, 130_000).replicas == 4
    assert (
        scale(policy, [Reading(at, 1, 5) for at in range(170_000, 190_000, 1_000)], 4, 190_000).replicas == 1
    )


def test_it_scales_to_zero_only_after_it_was_idle() -> None:
    policy = ScalingPolicy(minimum=0, maximum=2, idle_ms=300_000)
    asked = [Reading(100_000, 0.1, 3)]
    assert scale(policy, asked, 1, 390_000).replicas == 1
    assert scale(policy, asked, 1, 401_000).replicas == 0
    assert scale(policy, [Reading(500_000, 1, 1)], 0, 500_500).replicas == 1


def test_a_latency_above_its_target_asks_for_one_more() -> None:
    policy = ScalingPolicy(minimum=1, maximum=4, target_latency_ms=100)
    slow = [Reading(at, 2, 20, 180.0) for at in range(95_000, 100_001, 1_000)]
    assert scale(policy, slow, 2, 100_000).replicas == 3


def _traffic(requests: int, errors: int = 0, latency_ms: float = 10) -> Traffic:
    counts = [0] * BUCKETS
    counts[bucket_of(latency_ms)] = requests
    return Traffic(requests, errors, tuple(counts))


@pytest.mark.parametrize(
    ("canary", "now_ms", "verdict"),
    [
        (_traffic(10, 0), 5_000, Continue),
        (_traffic(10, 8), 5_000, RollBack),  # at once, long before the watch ends
        (_traffic(1_000, 2), 5_000, Continue),
        (_traffic(500, 0, 40), 5_000, RollBack),  # four times as slow
        (_traffic(500, 0), 70_000, Promote),
        (_traffic(20, 0), 70_000, Continue),  # too few to tell
    ],
)
def test_a_canary_is_judged_by_what_its_callers_see(canary: Traffic, now_ms: int, verdict: type) -> None:
    watch = Watch(0, 1_000, _traffic(5_000, 5), canary)
    assert isinstance(judge(CanaryPolicy(), watch, now_ms), verdict)


def _shadow(requests: int, alike: int) -> Traffic:
    return replace(_traffic(requests), compared=requests, alike=alike)


@pytest.mark.parametrize(
    ("canary", "now_ms", "verdict"),
    [
        (_shadow(500, 490), 5_000, Continue),
        (_shadow(500, 300), 5_000, RollBack),  # the rest of the watch would not save it
        (_shadow(500, 470), 5_000, Continue),  # too few yet, though not surely
        (_shadow(500, 470), 70_000, RollBack),
        (_shadow(500, 490), 70_000, Promote),
        (_traffic(500), 70_000, Continue),  # nothing could be compared
    ],
)
def test_a_shadow_takes_over_only_where_enough_of_its_answers_are_alike(
    canary: Traffic, now_ms: int, verdict: type
) -> None:
    policy = CanaryPolicy(shadow=True, min_agreement=0.95)
    assert isinstance(judge(policy, Watch(0, 1_000, _traffic(5_000), canary), now_ms), verdict)


def test_a_canary_has_other_requests_than_the_version_in_use_and_no_agreement() -> None:
    with pytest.raises(ValueError, match="min_agreement is for a shadow"):
        CanaryPolicy(min_agreement=0.9)


@pytest.mark.parametrize(
    ("canary", "stable", "verdict"),
    [
        (Quality(100, 100, 60), Quality(100, 100, 90), RollBack),
        (Quality(100, 100, 85), Quality(100, 100, 90), Promote),  # may be chance
        (Quality(100, 10, 0), Quality(100, 100, 90), Promote),  # too few labels
        (Quality(100, 100, 60), Quality(100, 0, 0), Promote),
    ],
)
def test_labels_that_say_a_canary_is_worse_roll_it_back(
    canary: Quality, stable: Quality, verdict: type
) -> None:
    watch = Watch(0, 1_000, _traffic(500), _traffic(500), stable, canary)
    found = judge(CanaryPolicy(), watch, 70_000)
    assert isinstance(found, verdict)
    assert isinstance(found, Promote) or "60 of its 100 labelled answers are right, 90 of 100" in found.reason


def test_outputs_that_moved_roll_a_canary_back_where_they_should_be_the_same() -> None:
    watch = Watch(0, 1_000, _traffic(500), _traffic(500), moved=("output[0]",))
    assert isinstance(judge(CanaryPolicy(), watch, 70_000), Promote), "a better model may answer otherwise"
    found = judge(CanaryPolicy(same_outputs=True), watch, 5_000)
    assert isinstance(found, RollBack)
    assert "output[0]" in found.reason


def test_a_canary_that_never_becomes_ready_is_rolled_back() -> None:
    watch = Watch(0, None, Traffic(), Traffic())
    assert isinstance(judge(CanaryPolicy(), watch, 5_000), Continue)
    assert isinstance(judge(CanaryPolicy(), watch, 700_000), RollBack)


def test_people_decide_where_the_policy_leaves_it_to_them() -> None:
    watch = Watch(0, 0, _traffic(100), _traffic(100, 100))
    assert isinstance(judge(CanaryPolicy(automatic=False), watch, 999_999), Continue)
