"""Which replica answers."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.latency import BUCKETS, added, bucket_of, quantile_ms, upper_ms
from platform_core.serving.routing import FAILURES_TO_OPEN, Circuit, Target, choose, to_canary

DRAWS = st.tuples(*[st.floats(0, 1, exclude_max=True)] * 2)
OPEN = Circuit(open_until_ms=1_000)
TARGETS = st.lists(
    st.builds(Target, id=st.text("abcdef", min_size=1), outstanding=st.integers(0, 50),
              circuit=st.sampled_from([Circuit(), OPEN])),
    max_size=6, unique_by=lambda target: target.id,
)  # fmt: skip


@given(TARGETS, DRAWS, st.sampled_from(["", "user-1"]), st.sets(st.text("abcdef", min_size=1)))
def test_the_choice_is_untried_and_closed_where_one_is(
    targets: list[Target], draws: tuple[float, float], key: str, tried: set[str]
) -> None:
    chosen = choose(targets, draws, now_ms=0, key=key, tried=tried)
    untried = [target for target in targets if target.id not in tried]
    if chosen is None:
        assert not untried
        return
    assert chosen in untried
    if any(target.circuit.lets(0) for target in untried):
        assert chosen.circuit.lets(0)


@given(DRAWS)
def test_the_busiest_of_several_is_never_chosen(draws: tuple[float, float]) -> None:
    targets = [Target("a", 0), Target("b", 3), Target("c", 9)]
    chosen = choose(targets, draws, now_ms=0)
    assert chosen is not None
    assert chosen.id != "c"


def test_a_key_stays_with_its_replica_until_that_is_crowded() -> None:
    targets = [Target("a", 1), Target("b", 1), Target("c", 1)]
    first = choose(targets, (0.1, 0.9), now_ms=0, key="session")
    assert first == choose(targets, (0.8, 0.3), now_ms=0, key="session")
    assert first is not None
    crowded = [Target(one.id, 40 if one.id == first.id else 1) for one in targets]
    second = choose(crowded, (0.1, 0.9), now_ms=0, key="session")
    assert second is not None
    assert second.id != first.id


def test_a_circuit_opens_after_failures_in_a_row_and_longer_each_time() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN - 1):
        circuit = circuit.failed(0)
    assert circuit.lets(0)
    circuit = circuit.failed(0)
    assert (circuit.lets(999), circuit.lets(1_000)) == (False, True)
    again = circuit.failed(1_000)
    assert (again.lets(2_999), again.lets(3_000)) == (False, True)
    assert again.succeeded() == Circuit()


@given(st.text(min_size=1), st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_greater_share_keeps_the_keys_of_the_canary(key: str, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert to_canary(high, 0.0, key) >= to_canary(low, 0.0, key)
    assert to_canary(10_000, 0.0, key)
    assert not to_canary(0, 0.0, key)


@given(st.lists(st.floats(0.01, 50_000), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_at_most_a_fifth_above_the_true_one(latencies: list[float], share: float) -> None:
    counts = [0] * BUCKETS
    for latency in latencies:
        counts[bucket_of(latency)] += 1
    measured = quantile_ms(added([counts]), share)
    below = sum(latency <= measured * 1.0001 for latency in latencies) if measured else 0
    assert below >= share * len(latencies) - 1e-9
    assert measured is not None
    assert any(measured / 1.21 <= max(latency, upper_ms(0)) for latency in latencies)
