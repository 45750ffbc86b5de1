"""What readings of devices lead to, and that nothing flaps."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.device_health import (
    BY_CODE,
    RULES,
    WHOLE_NODE,
    Consequence,
    Finding,
    Rule,
    Stage,
    advance,
    is_symptom,
    judge,
    most_suspected,
    out_of_service,
    returned,
)
from platform_core.units import HOUR_MS, MINUTE_MS, SECOND_MS

EVERY_MS = 2 * SECOND_MS
HOT = BY_CODE["throttled_hot"]
LOST = BY_CODE["gpu_lost"]


def run(
    rule: Rule, values: Iterable[float | None], finding: Finding | None = None, now: int = 0
) -> list[Finding | None]:
    history = []
    for value in values:
        finding = advance(rule, 0, finding, value, now)
        history.append(finding)
        now += EVERY_MS
    return history


def lasting(value: float | None, ms: int) -> list[float | None]:
    return [value] * (ms // EVERY_MS + 1)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_reading_below_the_threshold_is_nothing_and_one_that_lasts_is_active(rule: Rule) -> None:
    assert run(rule, lasting(rule.at_least * 0.99, 2 * HOUR_MS))[-1] is None
    last = run(rule, lasting(rule.at_least, rule.for_ms))[-1]
    assert last is not None
    assert last.is_active
    assert last.keeps_jobs_away == (rule.consequence is not Consequence.RECORD)
    assert last.moves_jobs == (rule.consequence is Consequence.TAKE_OUT)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.for_ms], ids=lambda rule: rule.code)
def test_a_short_peak_is_watched_and_forgotten(rule: Rule) -> None:
    history = run(rule, [*lasting(rule.at_least, rule.for_ms - 2 * EVERY_MS), 0])
    assert all(finding is None or finding.stage is Stage.WATCHED for finding in history)
    assert history[-1] is None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_is_taken_out_stays_out_and_the_rest_is_over_after_its_time(rule: Rule) -> None:
    active = run(rule, lasting(rule.at_least, rule.for_ms))[-1]
    history = run(rule, lasting(0, rule.clear_ms + EVERY_MS), active, HOUR_MS)
    if rule.consequence is Consequence.TAKE_OUT:
        assert history[-1] is not None
        assert history[-1].stage is Stage.ACTIVE
    else:
        assert history[-1] is None
        assert history[-3] is not None
        assert history[-3].is_active


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
@given(highs=st.lists(st.booleans(), min_size=1, max_size=400), gap_ms=st.integers(1_000, 20 * MINUTE_MS))
def test_nothing_flaps(rule: Rule, highs: list[bool], gap_ms: int) -> None:
    """Between two times that a rule becomes active its clear time and its own waiting time have passed."""
    finding, now, opened, last = None, 0, [], False
    for high in highs:
        finding = advance(rule, 0, finding, rule.at_least if high else 0.0, now)
        active = finding is not None and finding.is_active
        if active and not last:
            opened.append(now)
        last, now = active, now + gap_ms
    for earlier, later in pairwise(opened):
        assert rule.consequence is not Consequence.TAKE_OUT
        assert later - earlier >= rule.clear_ms + rule.for_ms


def test_a_node_that_is_not_heard_neither_gets_worse_nor_better() -> None:
    watched = run(LOST, [1])[-1]
    assert run(LOST, lasting(None, HOUR_MS), watched)[-1] == watched
    active = run(HOT, lasting(1, HOT.for_ms))[-1]
    assert run(HOT, lasting(None, HOUR_MS), active)[-1] == active


def test_what_an_operator_returned_goes_out_again_only_for_something_new() -> None:
    rule = BY_CODE["ecc_uncorrected"]
    out = run(rule, [2])[-1]
    assert out is not None
    back = returned(out, HOUR_MS)
    assert not back.keeps_jobs_away
    assert not run(rule, lasting(2, HOUR_MS), back, HOUR_MS)[-1].is_active  # type: ignore[union-attr]
    again = run(rule, [3, 3], back, HOUR_MS)[-1]
    assert again is not None
    assert again.is_active
    assert run(rule, lasting(0, rule.clear_ms + EVERY_MS), back, HOUR_MS)[-1] is None


def test_a_slot_alone_is_out_of_service_when_the_fault_is_its_own() -> None:
    findings = judge((), {}, {0: {}, 3: {"xid_79": 1.0}}, 5)
    assert out_of_service(findings) == {3: "XID 79: a GPU that fell off the bus"}
    assert findings[0].sentence == "slot 3: XID 79: a GPU that fell off the bus"
    findings = judge(findings, {"disk_read_only": 1.0}, {}, 10)
    assert set(out_of_service(findings)) == {3, WHOLE_NODE}


def test_of_several_faults_every_sentence_is_given() -> None:
    findings = judge((), {}, {1: {"ecc_uncorrected_hour": 4.0, "row_remap_failed": 1.0}}, 5)
    assert out_of_service(findings)[1] == (
        "4 uncorrected memory errors in an hour; a row of its memory could not be remapped: no spare rows are left"
    )


def test_a_reading_that_is_gone_counts_as_zero_where_the_device_was_read() -> None:
    findings = judge((), {}, {1: {"throttle_thermal": 1.0}}, 0)
    assert [finding.stage for finding in findings] == [Stage.WATCHED]
    assert judge(findings, None, {}, EVERY_MS) == findings
    assert judge(findings, {}, {1: {}}, EVERY_MS) == ()


def test_readings_of_slots_and_nodes_are_not_mixed_up() -> None:
    assert judge((), {"xid_79": 1.0}, {0: {"disk_read_only": 1.0}}, 0) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_has_words_and_is_looked_at_by_the_gateway(rule: Rule) -> None:
    assert is_symptom({rule.reading: rule.at_least})
    assert not is_symptom({rule.reading: rule.at_least * 0.99})
    assert rule.says(rule.at_least)
    assert rule.remedy.endswith(".")


def test_codes_are_used_once_and_a_few_nodes_at_most_are_suspected_for_failing_jobs() -> None:
    assert len(BY_CODE) == len(RULES)
    assert [most_suspected(nodes) for nodes in (1, 9, 10, 25, 1_000)] == [1, 1, 1, 2, 100]
