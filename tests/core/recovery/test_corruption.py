"""Which rank computed something wrong, and which checkpoints are from before that."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.recovery.corruption import (
    Agreement,
    Alibi,
    Suspicion,
    Verdict,
    Vote,
    agree,
    convicted,
    is_vouched_for,
    judge,
)


def votes(*digests: str) -> list[Vote]:
    return [Vote(rank, digest) for rank, digest in enumerate(digests)]


def test_ranks_that_computed_the_same_agree() -> None:
    assert judge(votes("a", "a", "a")).agreed
    assert judge(votes("a")).agreed


def test_of_three_ranks_the_one_that_differs_is_guilty() -> None:
    assert judge(votes("a", "b", "a")) == Verdict(guilty=(1,))


def test_two_ranks_that_differ_are_both_suspected() -> None:
    assert judge(votes("a", "b")) == Verdict(suspects=(0, 1))
    assert judge(votes("a", "b") * 2) == Verdict(suspects=(0, 1))


def test_a_third_result_decides_between_two_ranks() -> None:
    assert judge([*votes("a", "b"), Vote(2, "a")]) == Verdict(guilty=(1,))
    assert judge([*votes("a", "b"), Vote(0, "b")]) == Verdict(guilty=(0,))


def test_three_ranks_with_three_results_are_all_suspected() -> None:
    assert judge(votes("a", "b", "c")) == Verdict(suspects=(0, 1, 2))


def test_a_computation_that_differs_each_time_accuses_nobody() -> None:
    assert judge([*votes("a", "b"), *votes("c", "d")]) == Verdict(unsteady=True)


@given(
    ranks=st.integers(3, 40),
    wrong=st.sets(st.integers(0, 39), max_size=19),
    repeats=st.integers(1, 3),
)
def test_a_minority_that_differs_is_found_whatever_it_computes(
    ranks: int, wrong: set[int], repeats: int
) -> None:
    wrong = {rank for rank in wrong if rank < ranks}
    if 2 * len(wrong) >= ranks:
        return
    ballot = [Vote(rank, f"wrong {rank}" if rank in wrong else "right") for rank in range(ranks)] * repeats
    assert judge(ballot) == Verdict(guilty=tuple(sorted(wrong)))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), min_size=1, max_size=15), st.randoms())
def test_the_order_of_the_votes_of_different_ranks_does_not_matter(given_votes, random) -> None:  # type: ignore[no-untyped-def]
    ballot = [Vote(rank, digest) for rank, digest in given_votes]
    shuffled = list(ballot)
    random.shuffle(shuffled)
    one, other = judge(ballot), judge(shuffled)
    assert one == other
    assert not set(one.guilty) & set(one.suspects)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.integers(1, 1000))
def test_results_that_differ_by_less_than_the_tolerance_agree(sums: list[float], tolerance: int) -> None:
    near = [value * (1 + tolerance / 2e6) for value in sums]
    assert agree(Vote(0, "a", tuple(sums)), Vote(1, "b", tuple(near)), tolerance)


def test_a_difference_above_the_tolerance_or_with_an_infinity_is_seen() -> None:
    assert not agree(Vote(0, "a", (1.0, 2.0)), Vote(1, "b", (1.0, 2.1)), 1000)
    assert not agree(Vote(0, "a", (1.0,)), Vote(1, "b", (float("inf"),)), 1000)
    assert not agree(Vote(0, "a", (1.0,)), Vote(1, "b", (float("nan"),)), 1000)
    assert not agree(Vote(0, "a", (1.0,)), Vote(1, "b", (1.0,)), 0)


def test_an_agreement_vouches_for_what_was_saved_before_it() -> None:
    seen = [Agreement(2, 40)]
    assert is_vouched_for(2, 40, seen)
    assert is_vouched_for(1, 30, seen)
    assert not is_vouched_for(2, 41, seen)
    assert not is_vouched_for(3, 10, seen)
    assert not is_vouched_for(1, 10, [])


def suspicion(at_ms: int, *nodes: str) -> Suspicion:
    return Suspicion(at_ms, frozenset(nodes))


def alibi(began_ms: int, *nodes: str) -> Alibi:
    return Alibi(began_ms, frozenset(nodes))


def test_one_suspicion_of_two_nodes_convicts_nobody() -> None:
    assert convicted([suspicion(10, "a", "b")], []) == frozenset()
    assert convicted([suspicion(10, "a", "b"), suspicion(20, "a", "b")], []) == frozenset()


def test_a_node_that_differs_from_two_others_is_convicted() -> None:
    assert convicted([suspicion(10, "a", "b"), suspicion(20, "b", "c")], []) == {"b"}


def test_a_suspect_that_agrees_with_others_later_convicts_the_other_one() -> None:
    assert convicted([suspicion(10, "a", "b")], [alibi(20, "a", "c")]) == {"b"}


def test_an_agreement_before_alone_or_of_both_suspects_convicts_nobody() -> None:
    for useless in (alibi(5, "a", "c"), alibi(20, "a"), alibi(20, "a", "b")):
        assert convicted([suspicion(10, "a", "b")], [useless]) == frozenset()


@given(
    st.integers(0, 5),
    st.lists(st.sets(st.integers(0, 5), min_size=2, max_size=2), max_size=12),
)
def test_with_one_faulty_node_and_pairs_as_they_come_nobody_else_is_convicted(
    faulty: int, pairs: list[set[int]]
) -> None:
    suspicions, alibis = [], []
    for at_ms, pair in enumerate(pairs):
        nodes = frozenset(map(str, pair))
        if faulty in pair:
            suspicions.append(Suspicion(at_ms, nodes))
        else:
            alibis.append(Alibi(at_ms, nodes))
    assert convicted(suspicions, alibis) <= {str(faulty)}
