"""What starts have taken says what stopping costs: in the snapshot, and so in the choice and in the receipt."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import say, tick
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs import workload
from webapp.jobs.models import Attempt, Job
from webapp.jobs.services import Preemption
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.rpc import spool
from webapp.scheduling.models import Receipt

Submit = Callable[..., Job]


@pytest.fixture
def gang(cluster: list[Node], submit: Submit) -> Job:
    Quota.objects.update(maximum=16)
    job = submit(name="gang", num_gpus=4, preemptible=True)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def starts_again(job: Job) -> Attempt:
    """Its slots are taken, and it gets others."""
    jobs.preempt(job.id, Preemption(StopKind.EVICTED, "others need them"), now_ms())
    say(job, MemberPhase.EXITED, 0)
    tick()
    say(job, MemberPhase.RUNNING)
    return Attempt.objects.filter(job=job).order_by("-number")[0]


def took(job: Job, to_run_ms: int, to_step_ms: int | None = None) -> None:
    """So long its newest attempt took, in hindsight."""
    attempt = Attempt.objects.filter(job=job).order_by("-number")[0]
    attempt.running_ms = attempt.placed_ms + to_run_ms
    attempt.save(update_fields=["running_ms"])
    if to_step_ms is not None:
        told = {"step": 10, "progress_ms": attempt.placed_ms + to_step_ms}
        jobs.progress(job.id, attempt.number, told)


def restart_of(job: Job) -> int | None:
    (running,) = workload.running(job.id)
    return running.restart_ms


def test_before_anything_was_measured_the_flat_figure_counts(cluster: list[Node], submit: Submit) -> None:
    job = submit(name="new", num_gpus=4, preemptible=True)
    tick()
    assert restart_of(job) is None


def test_a_restart_lasts_until_the_first_step_of_the_attempt(gang: Job) -> None:
    took(gang, 2_000, 3_000)
    assert restart_of(gang) == MINUTE_MS, "a first start loads nothing: it only says that it takes no less"
    starts_again(gang)
    took(gang, 20_000, 4 * MINUTE_MS)
    assert restart_of(gang) == 4 * MINUTE_MS
    attempt = Attempt.objects.get(job=gang, number=2)
    jobs.progress(gang.id, 2, {"step": 20, "progress_ms": attempt.placed_ms + HOUR_MS})
    assert restart_of(gang) == 4 * MINUTE_MS, "its first step, not a later one"


def test_a_script_that_tells_no_steps_is_measured_until_it_ran(gang: Job) -> None:
    starts_again(gang)
    took(gang, 45_000)
    assert restart_of(gang) == 45_000


def test_a_slow_first_start_shows_that_another_will_not_be_quicker(gang: Job) -> None:
    took(gang, 5 * MINUTE_MS)
    assert restart_of(gang) == 5 * MINUTE_MS


def test_one_that_was_never_stopped_is_taken_to_start_like_others_of_its_size(
    gang: Job, submit: Submit
) -> None:
    starts_again(gang)
    took(gang, 10_000, 2 * MINUTE_MS)
    alike, single = submit(name="alike", num_gpus=2), submit(name="single", num_gpus=1)
    tick()
    for job in (alike, single):
        say(job, MemberPhase.RUNNING)
        took(job, 1_000)
    assert restart_of(alike) == 2 * MINUTE_MS
    assert restart_of(single) == MINUTE_MS, "no single one was ever started again"


def test_the_receipt_counts_what_was_measured(gang: Job) -> None:
    starts_again(gang)
    took(gang, 10_000, 7 * MINUTE_MS)
    Receipt.objects.all().delete()
    at_ms = now_ms()
    Job.objects.filter(id=gang.id).update(started_ms=at_ms - HOUR_MS)
    jobs.preempt(gang.id, Preemption(StopKind.IDLE, "it idles"), at_ms)
    assert Receipt.objects.get().lost_gpu_ms == 4 * (HOUR_MS + 7 * MINUTE_MS)


def test_measuring_takes_as_many_queries_for_many_jobs_as_for_one(gang: Job, submit: Submit) -> None:
    starts_again(gang)
    with CaptureQueriesContext(connection) as one:
        assert len(workload.running()) == 1
    for number in range(3):
        submit(name=f"other-{number}", num_gpus=1)
    tick()
    with CaptureQueriesContext(connection) as many:
        assert len(workload.running()) == 4
    assert len(many) == len(one)


def test_a_script_that_watches_for_a_stop_and_has_saved_is_expected_to_save_when_stopped(gang: Job) -> None:
    def saves() -> bool:
        (running,) = workload.running(gang.id)
        return running.saves_when_stopped

    attempt = Attempt.objects.get(job=gang)
    assert not saves()
    spool.ingest(attempt, "node-x", b'{"kind": "watches_stop", "at_ms": 1}\n')
    assert not saves()  # it has never saved anything
    Job.objects.filter(id=gang.id).update(latest_checkpoint="ckpt-0000000000000000", latest_attempt=1)
    assert saves()
