"""Who is told of what: grouping, silence, inhibition, repetition."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.alerting.announcements import Silence, Standing, Target, due
from platform_core.alerting.builtin import BY_CODE
from platform_core.alerting.machine import AlertState
from platform_core.alerting.rules import Severity

LOW, IDLE = BY_CODE["job_underused"], BY_CODE["job_mostly_idle"]
F, N, R, P = AlertState.FIRING, AlertState.NO_DATA, AlertState.RESOLVED, AlertState.PENDING
ALERT = Standing("alert-1", LOW, "job-1", "vision", F)


def ids(
    alerts: list[Standing], silences: tuple[Silence, ...] = (), at_ms: int = 1000
) -> list[tuple[str, ...]]:
    return [announcement.alerts for announcement in due(alerts, silences, at_ms)]


def test_a_firing_alert_is_told_once() -> None:
    assert ids([ALERT]) == [("alert-1",)]
    assert ids([replace(ALERT, told=F, told_ms=900)]) == []


def test_a_pending_alert_is_told_to_nobody() -> None:
    assert ids([replace(ALERT, state=P)]) == []


def test_alerts_of_a_rule_and_a_team_come_in_one_notice() -> None:
    other = replace(ALERT, id="alert-2", subject="job-2")
    elsewhere = replace(ALERT, id="alert-3", subject="job-3", team="nlp")
    assert ids([ALERT, other, elsewhere]) == [("alert-3",), ("alert-1", "alert-2")]


def test_the_end_is_told_to_those_who_heard_of_the_beginning_alone() -> None:
    assert ids([replace(ALERT, state=R)]) == []
    assert ids([replace(ALERT, state=R, told=F)]) == [("alert-1",)]
    assert ids([replace(ALERT, state=R, told=R)]) == []


def test_that_there_is_no_data_is_told_and_that_it_fires_again() -> None:
    assert ids([replace(ALERT, state=N, told=F)]) == [("alert-1",)]
    assert ids([replace(ALERT, state=F, told=N)]) == [("alert-1",)]


def test_a_silenced_alert_is_told_when_the_silence_ends() -> None:
    silence = Silence(until_ms=2000, team="vision", rule="job_underused")
    assert ids([ALERT], (silence,)) == []
    assert ids([ALERT], (silence,), at_ms=2000) == [("alert-1",)]
    assert ids([ALERT], (replace(silence, team="nlp"),)) == [("alert-1",)]
    assert ids([ALERT], (replace(silence, rule=""),)) == []
    assert ids([ALERT], (Silence(2000, subject="job-2"),)) == [("alert-1",)]


def test_an_alert_that_another_explains_is_not_told() -> None:
    worse = Standing("alert-2", IDLE, "job-1", "vision", F)
    assert ids([ALERT, worse]) == [("alert-2",)]
    assert ids([ALERT, replace(worse, subject="job-2")]) == [("alert-2",), ("alert-1",)]
    assert ids([ALERT, replace(worse, state=R, told=F)]) == [("alert-2",), ("alert-1",)]


def test_an_alert_of_the_whole_platform_explains_those_of_its_parts() -> None:
    down = Standing("alert-2", BY_CODE["gateway_down"], "", "", F)
    lags = Standing("alert-3", BY_CODE["uplink_lags"], "node-1", "", F)
    assert ids([down, lags]) == [("alert-2",)]


def test_it_is_told_again_until_somebody_acknowledges_it() -> None:
    told = replace(ALERT, told=F, told_ms=0)
    assert ids([told], at_ms=LOW.repeat_ms) == [("alert-1",)]
    assert ids([replace(told, acknowledged=True)], at_ms=LOW.repeat_ms) == []


def test_targets_take_what_is_of_their_team_and_grave_enough() -> None:
    assert Target(1, "vision").takes("vision", Severity.WARNING)
    assert not Target(1, "vision").takes("nlp", Severity.CRITICAL)
    assert not Target(1, "vision").takes("", Severity.CRITICAL)
    assert not Target(1, "", Severity.CRITICAL).takes("", Severity.WARNING)
    assert not Target(1, "").takes("vision", Severity.CRITICAL)
    assert Target(1, "", every_team=True).takes("vision", Severity.WARNING)


STANDINGS = st.lists(
    st.builds(
        Standing, st.uuids().map(str), st.sampled_from([LOW, IDLE]), st.sampled_from(["job-1", "job-2"]),
        st.sampled_from(["vision", "nlp"]), st.sampled_from(AlertState), told=st.none() | st.sampled_from([F, N, R]),
    ),
    max_size=12, unique_by=lambda alert: alert.id,
)  # fmt: skip


@given(STANDINGS)
def test_after_it_is_told_nothing_is_told_a_second_time(alerts: list[Standing]) -> None:
    first = due(alerts, (), 1000)
    told = {alert_id: announcement.state for announcement in first for alert_id in announcement.alerts}
    assert sum(len(announcement.alerts) for announcement in first) == len(told), "each alert once"
    after = [replace(alert, told=told.get(alert.id, alert.told), told_ms=1000) for alert in alerts]
    assert due(after, (), 1001) == ()


@given(STANDINGS)
def test_whoever_is_told_of_an_end_had_heard_of_the_beginning(alerts: list[Standing]) -> None:
    by_id = {alert.id: alert for alert in alerts}
    for announcement in due(alerts, (), 1000):
        if announcement.state is R:
            assert all(by_id[alert_id].told in (F, N) for alert_id in announcement.alerts)
