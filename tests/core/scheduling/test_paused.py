"""Jobs that have failed and restart only after a pause."""

from dataclasses import replace

from platform_core.scheduling.decisions import WaitCode
from platform_core.scheduling.engine import plan
from platform_core.scheduling.forecast.start_times import forecast
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, snapshot

PAUSED = replace(pending("again", 8), not_before_ms=NOW_MS + MINUTE_MS)


def test_it_does_not_start_before_its_pause_is_over_and_says_when():
    decided = plan(snapshot([node("a")], [PAUSED]))
    assert decided.placements == ()
    [wait] = decided.waits
    assert (wait.code, wait.sentence) == (WaitCode.RESTARTS_LATER, "restarts in 1 min, after a failure")


def test_it_starts_once_its_pause_is_over():
    over = replace(snapshot([node("a")], [PAUSED]), now_ms=NOW_MS + MINUTE_MS)
    assert [each.job_id for each in plan(over).placements] == [PAUSED.id]


def test_nothing_is_kept_empty_for_it_meanwhile():
    policy = Policy(reservations=1, evicts=True)
    decided = plan(snapshot([node("a")], [PAUSED, pending("next", 8)]), policy)
    assert [each.job_id for each in decided.placements] == ["job-next"]


def test_a_forecast_counts_with_the_end_of_the_pause():
    [told] = forecast(snapshot([node("a")], [PAUSED]), Policy(), percent_used=50)
    assert (told.early_ms, told.late_ms) == (NOW_MS + MINUTE_MS, NOW_MS + MINUTE_MS)
