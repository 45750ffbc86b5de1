"""Service levels over what the platform really does: jobs, recoveries, samples, probes, requests, notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.service_levels.budget import Counts, Standing, Trend
from platform_core.service_levels.objectives import OBJECTIVES
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.alerts.test_notices import Receiver, receiver, storage
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.alerts import evaluation, notices
from webapp.alerts import services as alerts
from webapp.alerts.models import Notice
from webapp.artifacts.models import Manifest
from webapp.base import traffic
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.events.models import Event
from webapp.jobs import recoveries
from webapp.jobs.models import Job, Recovery, UtilisationSample
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.scheduling import measures as scheduling
from webapp.service_levels import measuring, queries, services
from webapp.service_levels.models import Measurement
from webapp.service_levels.queries import Level, levels

__all__ = ["receiver", "storage"]
WEEK_MS = 7 * DAY_MS


def level(code: str, at_ms: int | None = None, team: str = "") -> Level:
    """As it is a minute from now, without what was kept of earlier answers."""
    for key in liveness.client().scan_iter("*service_levels:*:*:*:*"):
        liveness.client().delete(key)
    at_ms = now_ms() + MINUTE_MS if at_ms is None else at_ms
    return next(each for each in levels(at_ms, team) if each.objective.code == code)


def steps(job: Job) -> None:
    recoveries.milestone(job.id, Job.objects.get(id=job.id).attempt, "first_step", now_ms())


def test_a_new_platform_promises_and_has_no_data() -> None:
    found = levels(now_ms())
    assert [each.objective.code for each in found] == [objective.code for objective in OBJECTIVES]
    assert {each.standing for each in found} == {Standing.NO_DATA}
    assert {each.budget_left for each in found} == {None}
    assert {each.trend for each in found} == {Trend.NO_DATA}


def test_the_first_step_counts_from_the_submission(cluster: list[Node], submit: Callable[..., Job]) -> None:
    quick, slow = submit(num_gpus=2), submit(num_gpus=2)
    tick()
    waits = submit(num_gpus=2)
    Job.objects.filter(id__in=(slow.id, waits.id)).update(submitted_ms=now_ms() - 6 * MINUTE_MS)
    for job in (quick, slow):
        say(job, MemberPhase.RUNNING)
        steps(job)
    assert level("first_step_small").week == Counts(1, 3)
    assert level("first_step_small", team="vision").week == Counts(1, 3)
    assert level("first_step_small", team="nlp").week == Counts()
    assert level("first_step_large").week == Counts()
    [sizes] = queries.durations(now_ms() + MINUTE_MS).first_steps
    assert (sizes.label, sizes.jobs) == ("2 to 8", 2)
    assert sizes.p95_ms >= 6 * MINUTE_MS


def test_a_fault_of_a_script_is_none_of_the_platform(cluster: list[Node], submit: Callable[..., Job]) -> None:
    ends = (EndReason.SUCCEEDED, EndReason.SCRIPT_ERROR, EndReason.NODE_LOST)
    jobs = [submit(num_gpus=2, max_restarts=0) for _ in ends]
    tick()
    for job, end in zip(jobs, ends, strict=True):
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, 0 if end is EndReason.SUCCEEDED else 1, end=end)
    assert level("completion").week == Counts(2, 3)
    assert level("completion").standing is Standing.MISSED


@pytest.fixture
def recovered(cluster: list[Node], submit: Callable[..., Job]) -> Job:
    """It lost a node, and took 4 minutes to its next step."""
    job = submit(num_gpus=2)
    Recovery.objects.create(
        job=job, attempt=1, reason=EndReason.NODE_LOST, began_ms=now_ms() - HOUR_MS, over=True,
        detect_ms=30_000, stop_ms=0, place_ms=90_000, fetch_ms=60_000, load_ms=50_000, first_step_ms=10_000,
    )  # fmt: skip
    return job


def test_recoveries_count_after_faults_of_the_platform(recovered: Job) -> None:
    began_ms = now_ms() - HOUR_MS
    Recovery.objects.create(job=recovered, attempt=2, reason=EndReason.PREEMPTED, began_ms=began_ms)
    Recovery.objects.create(job=recovered, attempt=3, reason=EndReason.NETWORK, began_ms=began_ms, over=True)
    Recovery.objects.create(job=recovered, attempt=4, reason=EndReason.NETWORK, began_ms=now_ms())
    assert level("recovery").week == Counts(1, 2)
    assert level("recovery_time").week == Counts(1, 2)  # the last is under way and has time left
    assert queries.durations(now_ms()).recovery_ms == 4 * MINUTE_MS


def test_a_damaged_checkpoint_is_a_failed_one(recovered: Job) -> None:
    manifest = Manifest.objects.create(
        id="man-1", kind="checkpoint", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    for step, damaged in ((1, ""), (2, ""), (3, "torn")):
        Checkpoint.objects.create(
            id=f"ckpt-{step}", job=recovered, step=step, attempt=1, manifest=manifest, saved_ms=now_ms(),
            damaged=damaged,
        )  # fmt: skip
    assert level("checkpoints").week == Counts(2, 3)


def test_utilisation_leaves_out_what_nobody_wants() -> None:
    at_ms = now_ms() - HOUR_MS
    for number, (gpu_type, held, utilisation, queued) in enumerate((
        ("a100", 8, 0.5, 0), ("a100", 0, None, 0), ("a100", 0, None, 2), ("h100", 4, None, 0),
    )):  # fmt: skip
        UtilisationSample.objects.create(
            at_ms=at_ms + number, gpu_type=gpu_type, slots=8, held=held, utilisation=utilisation,
            queued_jobs=queued,
        )  # fmt: skip
    week = level("utilisation").week
    # 4 of 8 used, 8 free though wanted, 4 free of another type that a job holds some of
    assert week.compliance == pytest.approx(4 / 20)


def lives(monkeypatch: pytest.MonkeyPatch, trouble: str = "") -> None:
    monkeypatch.setattr(measuring, "_web", lambda: trouble)


def test_a_minute_is_up_when_web_gateway_and_scheduler_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lives(monkeypatch)
    now = now_ms()
    assert measuring.probe(now) == "the gateway has not been heard of"
    liveness.listening(now)
    assert measuring.probe(now) == "the scheduler has not been heard of"
    scheduling.finished(now, 5)
    assert measuring.probe(now) == ""
    assert measuring.probe(now + 2 * MINUTE_MS) == "the gateway was silent for 2 min"
    lives(monkeypatch, "it answered 503")
    assert measuring.probe(now) == "it answered 503"


def test_a_web_address_that_does_not_answer_is_an_outage(settings: Any) -> None:
    settings.PROBE_URL = "http://127.0.0.1:1/healthz"
    sentence = "http://127.0.0.1:1/healthz gave no answer: 127.0.0.1 did not answer: ConnectError"
    assert measuring.probe(now_ms()) == sentence


def test_missing_probes_and_failed_ones_spend_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = now_ms() // MINUTE_MS * MINUTE_MS - HOUR_MS
    lives(monkeypatch)
    for minute in range(60):
        at_ms = begin + minute * MINUTE_MS
        liveness.listening(at_ms)
        scheduling.finished(at_ms, 5)
        lives(monkeypatch, "it answered 503" if minute == 7 else "")
        if minute not in (20, 21):  # no worker ran
            measuring.measure(at_ms)
            measuring.measure(at_ms + 30_000)
    found = level("availability", begin + HOUR_MS)
    assert found.week == Counts(57, 60)
    assert found.standing is Standing.MISSED
    assert found.budget_left == pytest.approx(1 - 3 / 60 / 0.001)
    assert [outage.note for outage in queries.outages(begin + HOUR_MS)] == ["it answered 503"]


def test_a_probe_that_fails_spoils_its_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    at_ms = now_ms() // MINUTE_MS * MINUTE_MS
    lives(monkeypatch, "it answered 503")
    measuring.measure(at_ms)
    lives(monkeypatch)
    liveness.listening(at_ms)
    scheduling.finished(at_ms, 5)
    measuring.measure(at_ms + 30_000)
    [row] = Measurement.objects.all()
    assert (row.good, row.total, row.note) == (0, 1, "it answered 503")


def test_requests_to_the_api_are_counted_by_their_time(
    monkeypatch: pytest.MonkeyPatch, owner: User, browser: Callable[[User], Client]
) -> None:
    lives(monkeypatch)
    measuring.measure()  # from here on there is something to compare with
    for _ in range(3):
        assert browser(owner).get("/api/v1/me").status_code == 200
    traffic.COUNTER.add("http", "api-queue", "2xx", 1.5)
    traffic.COUNTER.add("http", "api-queue", "5xx", 0.1)
    traffic.COUNTER.add("http", "api-upload-file", "2xx", 60.0)
    traffic.COUNTER.add("http", "jobs:list", "2xx", 60.0)
    measuring.measure()
    assert level("api_latency").week == Counts(3, 5)
    measuring.measure()
    assert level("api_latency").week == Counts(3, 5)


def test_counters_that_began_anew_count_nothing_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    lives(monkeypatch)
    traffic.COUNTER.add("http", "api-queue", "2xx", 0.1)
    traffic.COUNTER.add("http", "api-queue", "2xx", 0.1)
    measuring.measure()
    liveness.client().delete(traffic.KEY)
    traffic.COUNTER.add("http", "api-queue", "2xx", 0.1)
    measuring.measure()
    assert level("api_latency").week == Counts()
    traffic.COUNTER.add("http", "api-queue", "2xx", 0.1)
    measuring.measure()
    assert level("api_latency").week == Counts(1, 1)


def test_old_measurements_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    lives(monkeypatch)
    Measurement.objects.create(code="availability", at_ms=now_ms() - measuring.KEPT_MS - 1, good=1, total=1)
    measuring.measure()
    assert Measurement.objects.count() == 1


def test_the_delay_of_an_alert_ends_with_its_acceptance(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    alerts.add_channel(actor_of(cast.lead), "vision", "hook", "webhook", receiver.url)
    now = now_ms()
    assert evaluation.evaluate(now)
    assert level("alert_delay", now + MINUTE_MS).week == Counts()  # not sent, and there is time left
    assert level("alert_delay", now + 4 * MINUTE_MS).week == Counts(0, 1)
    notices.deliver()
    assert level("alert_delay", now + 4 * MINUTE_MS).week == Counts(1, 1)
    Notice.objects.update(sent_ms=now + 3 * MINUTE_MS)
    assert level("alert_delay", now + 4 * MINUTE_MS).week == Counts(0, 1)


def test_a_week_compares_with_the_week_before(cluster: list[Node], submit: Callable[..., Job]) -> None:
    now = now_ms()
    for number in range(4):
        job = submit(num_gpus=2)
        at_ms = now - (WEEK_MS if number % 2 else 0) - HOUR_MS
        lost = number == 1
        Job.objects.filter(id=job.id).update(
            state="failed" if lost else "succeeded",
            end="node_lost" if lost else "succeeded",
            finished_ms=at_ms,
        )
    found = level("completion")
    assert found.weeks[-2:] == (Counts(1, 2), Counts(2, 2))
    assert found.month == Counts(3, 4)
    assert found.trend is Trend.BETTER


def test_an_admin_sets_another_target_and_it_is_audited(admin: User, owner: User) -> None:
    changed = services.set_objective(actor_of(admin), "recovery_time", target=0.95, limit_ms=5 * MINUTE_MS)
    assert (changed.objective.target, changed.objective.limit_ms) == (0.95, 5 * MINUTE_MS)
    assert queries.entry("recovery_time") == changed
    assert changed.changed_by == admin.username
    services.set_objective(actor_of(admin), "recovery_time", target=0.95)  # nothing new
    services.reset(actor_of(admin), "recovery_time")
    assert queries.entry("recovery_time").objective.target == 0.9
    causes = Event.objects.filter(subject_kind="service-level").order_by("id").values_list("cause", flat=True)
    assert list(causes) == [
        "from 90 % within 10 min to 95 % within 5 min",
        "to the default, 90 % within 10 min",
    ]
    with pytest.raises(TrainmasterError) as refused:
        services.set_objective(actor_of(owner), "recovery", target=0.9)
    assert refused.value.code == "not_allowed"


@pytest.mark.parametrize(("target", "limit_ms"), [(1.0, None), (0.1, None), (float("nan"), None), (0.9, 5)])
def test_a_target_out_of_bounds_is_refused_with_its_number(
    admin: User, target: float, limit_ms: int | None
) -> None:
    with pytest.raises(TrainmasterError) as refused:
        services.set_objective(actor_of(admin), "recovery_time", target=target, limit_ms=limit_ms)
    assert refused.value.code == "request_invalid"
    assert "is not between" in refused.value.sentence


def test_an_objective_that_is_not_known_is_not_found(vision: Team, admin: User) -> None:
    with pytest.raises(TrainmasterError) as refused:
        services.set_objective(actor_of(admin), "happiness", target=0.9)
    assert refused.value.code == "not_found"
