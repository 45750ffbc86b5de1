"""When ranks hang, and when a job is only slow."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs.hangs import (
    DEFAULT_FLOOR_MS,
    LEAST_STEPS,
    START_FACTOR,
    Progress,
    Watch,
    forgive,
    judge,
    limit_ms,
    observe,
)
from platform_core.units import MINUTE_MS, SECOND_MS

FLOOR = MINUTE_MS


def steps(count: int, took_ms: int = SECOND_MS, ranks: int = 2, begin_ms: int = 0) -> tuple[Watch, int]:
    """The watch after so many steps of all ranks, and the time."""
    watch, now = (), begin_ms
    for step in range(count):
        watch = observe(watch, [Progress(rank, step, now) for rank in range(ranks)], now)
        now += took_ms
    return watch, now - took_ms


def test_a_job_that_steps_does_not_hang() -> None:
    watch, now = steps(100)
    assert judge(watch, now + FLOOR, FLOOR) is None


def test_ranks_that_are_silent_for_longer_than_the_floor_hang() -> None:
    watch, now = steps(100)
    hang = judge(watch, now + FLOOR + 1, FLOOR)
    assert hang is not None
    assert (hang.ranks, hang.step, hang.since_ms) == ((0, 1), 99, now)
    assert hang.sentence(now + 90_000) == (
        "no progress for 1 min 30 s after step 99, the limit by its own steps is 1 min"
    )


def test_slow_steps_give_a_longer_limit_than_the_floor() -> None:
    watch, now = steps(20, took_ms=30 * SECOND_MS)
    assert limit_ms(watch[0], FLOOR) == 300 * SECOND_MS
    assert judge(watch, now + 299 * SECOND_MS, FLOOR) is None
    assert judge(watch, now + 301 * SECOND_MS, FLOOR) is not None


def test_before_its_first_steps_are_over_a_job_has_a_longer_limit_and_then_hangs() -> None:
    watch, now = steps(
        LEAST_STEPS - 1
    )  # one step or none was timed: imports, the first collective, compilation
    limit = START_FACTOR * FLOOR
    assert judge(watch, now + limit, FLOOR) is None
    hang = judge(watch, now + limit + 1, FLOOR)
    assert hang is not None
    assert (hang.ranks, hang.step, hang.limit_ms) == ((0, 1), LEAST_STEPS - 2, limit)
    assert judge((), 100 * MINUTE_MS, FLOOR) is None


def test_a_job_whose_ranks_load_and_never_step_hangs() -> None:
    watch = observe((), [Progress(rank, 0, 0, "loading") for rank in range(2)], 0)
    assert judge(watch, START_FACTOR * FLOOR, FLOOR) is None
    assert judge(watch, START_FACTOR * FLOOR + 1, FLOOR) is not None


def test_a_job_that_hangs_within_a_second_of_its_first_steps_is_found() -> None:
    fast = [Progress(rank, 5_010, 0, made=10) for rank in range(2)]  # all that it said before it stood still
    watch = observe((), fast, 0)
    assert judge(watch, FLOOR, FLOOR) is None
    hang = judge(watch, FLOOR + 1, FLOOR)
    assert hang is not None
    assert hang.step == 5_010
    compiling = observe((), [Progress(0, 5_002, 0, made=LEAST_STEPS - 1)], 0)
    assert judge(compiling, START_FACTOR * FLOOR, FLOOR) is None


def test_an_evaluation_that_was_seen_once_may_take_twice_as_long_the_next_time() -> None:
    watch, now = steps(50)
    now += 10 * MINUTE_MS
    watch = observe(watch, [Progress(rank, 50, now) for rank in range(2)], now)
    assert judge(watch, now + 19 * MINUTE_MS, FLOOR) is None
    assert judge(watch, now + 21 * MINUTE_MS, FLOOR) is not None


def test_a_save_in_flight_has_longer() -> None:
    watch, now = steps(50)
    watch = observe(watch, [Progress(rank, 49, now, "saving") for rank in range(2)], now)
    assert judge(watch, now + 4 * FLOOR, FLOOR) is None
    assert judge(watch, now + 4 * FLOOR + 1, FLOOR) is not None


def test_a_rank_falls_silent_while_the_others_wait_at_its_step() -> None:
    watch, now = steps(50, ranks=3)
    for _ in range(90):  # the others say again and again that they are still there
        now += SECOND_MS
        watch = observe(watch, [Progress(rank, 50, now) for rank in (0, 2)], now)
    hang = judge(watch, now, FLOOR)
    assert hang is not None
    assert hang.ranks == (1,)


def test_a_rank_that_stopped_reporting_while_the_others_go_on_is_no_hang() -> None:
    watch, now = steps(50, ranks=2)
    for step in range(51, 151):
        now += SECOND_MS
        watch = observe(watch, [Progress(0, step, now)], now)
    assert judge(watch, now, FLOOR) is None


def test_after_the_last_step_a_long_export_is_no_hang() -> None:
    watch, now = steps(50)
    watch = observe(watch, [Progress(0, 50, now, "done")], now)
    assert judge(watch, now + 100 * MINUTE_MS, FLOOR) is None


def test_a_forgiven_silence_counts_as_a_pause_of_the_job() -> None:
    watch, now = steps(50)
    later = now + 2 * MINUTE_MS
    watch = forgive(watch, later)
    assert judge(watch, later + 4 * MINUTE_MS, FLOOR) is None
    assert judge(watch, later + 4 * MINUTE_MS + 1, FLOOR) is not None


@given(st.lists(st.integers(1, 10 * MINUTE_MS), min_size=10, max_size=100), st.integers(1, 4))
def test_no_job_whose_steps_stay_within_twice_their_longest_hangs(times: list[int], ranks: int) -> None:
    """Whatever the steps take: what has happened before never counts as a hang when it happens again."""
    watch, now = (), 0
    for step, took in enumerate(times):
        if step > LEAST_STEPS + 1 and took <= 2 * max(times[LEAST_STEPS + 1 : step], default=0):
            assert judge(watch, now + took, FLOOR) is None
        now += took
        watch = observe(watch, [Progress(rank, step, now) for rank in range(ranks)], now)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 10**7)), max_size=60))
def test_whatever_ranks_say_a_silence_of_forever_is_judged_alike_by_every_look(
    reports: list[tuple[int, int, int]],
) -> None:
    watch, now = (), 0
    for rank, step, at_ms in reports:
        now += SECOND_MS
        watch = observe(watch, [Progress(rank, step, at_ms)], now)
    assert [pace.progress.rank for pace in watch] == sorted({rank for rank, _, _ in reports})
    first = judge(watch, 10**12, DEFAULT_FLOOR_MS)
    assert (first is None) == (judge(watch, 10**12 + 1, DEFAULT_FLOOR_MS) is None)
    assert observe(watch, [pace.progress for pace in watch], 10**13) == watch
