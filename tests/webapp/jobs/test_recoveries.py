"""The recoveries of a job: measured by phase, on its page, over REST, in the report."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from tests.webapp.jobs.conftest import after_its_pause, say, tick
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.jobs import recoveries, services
from webapp.jobs.models import Attempt, Job, Recovery
from webapp.jobs.services import Preemption
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


def attempt_of(job: Job) -> Attempt:
    return Attempt.objects.get(job=job, number=Job.objects.get(id=job.id).attempt)


def tells(job: Job, *lines: str) -> None:
    spool.ingest(attempt_of(job), "node-0", "\n".join(lines).encode())


def milestone(name: str, step: int = 0) -> str:
    return f'{{"kind": "milestone", "name": "{name}", "at_ms": {now_ms()}, "step": {step}}}'


def metrics(step: int) -> str:
    return f'{{"kind": "metrics", "at_ms": {now_ms()}, "step": {step}, "values": {{"loss": 1.0}}}}'


@pytest.fixture
def job(submit: Submit) -> Job:
    """It has made 120 steps."""
    job = submit(num_gpus=2, preemptible=True)
    tick()
    say(job, MemberPhase.RUNNING)
    tells(job, milestone("loaded"), milestone("first_step", 1), metrics(1), metrics(120))
    return job


def fails(job: Job) -> None:
    say(job, MemberPhase.EXITED, 1)


def test_a_failure_is_measured_until_the_first_step_after_it(job: Job) -> None:
    fails(job)
    [row] = Recovery.objects.filter(job=job)
    assert (row.attempt, row.steps_lost, row.over) == (1, 120, False)
    assert row.detect_ms is not None
    assert row.stop_ms is not None
    assert row.place_ms is None
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    tells(job, milestone("loaded"))
    row.refresh_from_db()
    assert row.load_ms is not None
    assert row.first_step_ms is None
    tells(job, milestone("first_step", 1), metrics(1))
    row.refresh_from_db()
    assert row.over
    assert row.first_step_ms is not None


def test_a_second_failure_before_the_first_step_ends_the_recovery_without_success(job: Job) -> None:
    fails(job)
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    fails(job)
    sums = recoveries.of_job(Job.objects.get(id=job.id), now_ms()).summary
    assert (sums.count, sums.succeeded) == (1, 0)


def test_a_preempted_job_is_detected_at_once(job: Job) -> None:
    services.preempt(job.id, Preemption(StopKind.EVICTED, "a more urgent job needs 2 slots"), now_ms())
    say(job, MemberPhase.EXITED, 143)
    [row] = Recovery.objects.filter(job=job)
    assert (row.reason, row.detect_ms) == ("preempted", 0)


def test_a_job_that_ends_for_good_opens_no_recovery(submit: Submit) -> None:
    job = submit(num_gpus=2, max_restarts=0)
    tick()
    say(job, MemberPhase.RUNNING)
    fails(job)
    assert not Recovery.objects.filter(job=job).exists()


def test_the_page_shows_the_phases_of_each_restart(
    job: Job, browser: Callable[..., Client], owner: User
) -> None:
    fails(job)
    Recovery.objects.filter(job=job).update(
        detect_ms=30_000, stop_ms=500, place_ms=1_000, fetch_ms=2_000, load_ms=4_000, first_step_ms=1_000, over=True
    )  # fmt: skip
    page = browser(owner).get(f"/jobs/{job.id}/?tab=timeline").content.decode()
    assert "Detect 30 s" in page
    assert "recovered" in page
    assert "1 of 1" in page


def test_rest_lists_the_recoveries_with_their_summary(
    job: Job, api: Callable[..., APIClient], owner: User
) -> None:
    fails(job)
    body = api(owner).get(f"/api/v1/training-jobs/{job.id}/recoveries").json()
    [row] = body["results"]
    assert row["attempt"] == 1
    assert row["phases_ms"]["place"] is None
    assert body["mean_ms"] is None
    assert body["effective_training_time"] == 0.0


def test_the_sums_of_a_period_count_the_recoveries_that_began_in_it(job: Job) -> None:
    fails(job)
    now = now_ms()
    assert recoveries.of_period(now - 60_000, now + 1).steps_lost == 120
    assert recoveries.of_period(now + 1, now + 2).steps_lost == 0


def test_the_report_tells_the_means_by_phase_and_the_effective_time_of_the_week(
    job: Job, browser: Callable[..., Client], owner: User
) -> None:
    fails(job)
    Recovery.objects.filter(job=job).update(
        detect_ms=30_000, stop_ms=500, place_ms=1_000, fetch_ms=2_000, load_ms=4_000, first_step_ms=1_000, over=True
    )  # fmt: skip
    at = now_ms()
    moments = {
        "placed_ms": at - 100_000,
        "first_step_ms": at - 90_000,
        "ended_ms": at,
        "lost_gpu_ms": 2 * 20_000,
    }
    Attempt.objects.filter(job=job, number=1).update(**moments)
    assert recoveries.effective_of_period(at - 200_000, at + 1).ratio == pytest.approx(0.7, abs=0.001)
    assert recoveries.effective_of_period(at + 2, at + 3).ratio is None
    page = browser(owner).get("/report/").content.decode()
    assert '<th scope="row">Load</th><td class="n">4 s</td>' in page
    assert "Effective training time" in page
