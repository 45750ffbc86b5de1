"""When waiting jobs should start, and how good such words were."""

from dataclasses import replace

from hypothesis import given

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import Snapshot
from platform_core.scheduling.engine import plan
from platform_core.scheduling.forecast.start_times import Forecast, forecast
from platform_core.scheduling.metrics.fragmentation import Fragmentation, fragmentation
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

FULL = running(
    "old",
    {"a": range(8)},
    started_ms=NOW_MS - 10 * MINUTE_MS,
    expected_end_ms=NOW_MS + 90 * MINUTE_MS,
)
BUSY = node("a", free=0)


def told(told: tuple[Forecast, ...]) -> dict[str, tuple[int, int | None]]:
    """Job → (early, late) in minutes from now."""
    return {
        each.job_id.removeprefix("job-"): (
            (each.early_ms - NOW_MS) // MINUTE_MS,
            None if each.late_ms is None else (each.late_ms - NOW_MS) // MINUTE_MS,
        )
        for each in told
    }


def test_what_fits_now_starts_now():
    assert told(forecast(snapshot([node("a")], [pending("new", 8)]), Policy(), percent_used=50)) == {
        "new": (0, 0)
    }


def test_early_when_jobs_use_a_share_of_their_limits_late_when_they_use_them_up():
    waiting = snapshot([BUSY], [pending("next", 8), pending("after", 8)], held=[FULL])
    assert told(forecast(waiting, Policy(), percent_used=50)) == {"after": (40, 90), "next": (70, 150)}


def test_one_that_has_run_beyond_its_share_is_taken_to_need_a_little_more():
    waiting = snapshot([BUSY], [pending("next", 8)], held=[FULL])
    assert told(forecast(waiting, Policy(), percent_used=5)) == {"next": (1, 90)}


def test_a_team_at_its_maximum_waits_for_its_own_jobs():
    ends_late = running("own", {"a": [0, 1]}, expected_end_ms=NOW_MS + 60 * MINUTE_MS)
    waiting = snapshot(
        [node("a", free=6)], [pending("next", 2)], held=[ends_late], teams=[team(maximum=3, used=2)]
    )
    assert told(forecast(waiting, Policy(), percent_used=100)) == {"next": (60, 60)}


def test_an_owner_waits_until_the_borrower_has_saved_and_the_borrower_until_the_owner_has_ended():
    borrower = replace(
        running("lent", {"a": range(8)}, team="nlp", started_ms=NOW_MS - 10 * MINUTE_MS),
        expected_end_ms=NOW_MS + 600 * MINUTE_MS,
        asks=pending("lent", 8, team="nlp"),
    )
    queue = [pending("own", 8), pending("next", 8, team="nlp", submitted_ms=NOW_MS + 1)]
    shares = [team(guaranteed=8), team("nlp", used=8)]
    waiting = snapshot([BUSY], queue, held=[borrower], teams=shares)
    lending = Policy(reclaims=True, stop_grace_ms=2 * MINUTE_MS)
    assert told(forecast(waiting, lending, percent_used=50))["own"] == (2, 2)
    assert told(forecast(waiting, lending, percent_used=50)).keys() == {"own", "next"}, "of those that wait"
    assert told(forecast(waiting, Policy(), percent_used=100))["own"] == (600, 600)


def test_nothing_is_promised_to_what_can_never_start_nor_to_what_lies_too_far_ahead():
    queue = [
        pending("huge", 16),
        *[pending(f"{number:02}", 8, submitted_ms=NOW_MS + number) for number in range(5)],
    ]
    waiting = snapshot([BUSY], queue, held=[FULL])
    assert set(told(forecast(waiting, Policy(), percent_used=50, most_rounds=4))) == {"00", "01", "02"}


@given(snapshots())
def test_whom_the_engine_starts_now_the_forecast_starts_now(situation: Snapshot):
    starts = {each.job_id: each for each in forecast(situation, Policy(), percent_used=30)}
    for placement in plan(situation).placements:
        assert starts[placement.job_id] == Forecast(placement.job_id, situation.now_ms, situation.now_ms)
    assert all(each.late_ms is None or each.early_ms <= each.late_ms for each in starts.values())


def test_free_slots_on_nodes_in_part_in_use_are_broken():
    nodes = [
        node("a"),
        node("b", free=3),
        node("c", free=0),
        node("d", state=NodeState.DRAINING),
        replace(node("e", free=1), gpu_type="cpu"),
    ]
    a100, cpu = fragmentation(nodes)
    assert (a100, a100.share) == (
        Fragmentation("a100", free=11, free_nodes=2, whole_nodes=1, broken=3),
        3 / 11,
    )
    assert cpu.share == 1
