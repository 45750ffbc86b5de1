"""Where the time of a job with several attempts went, and what it has lost."""

from collections.abc import Callable

import pytest

from platform_core.jobs.ends import EndReason
from platform_core.jobs.events import CheckpointSaved
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from tests.webapp.jobs.conftest import after_its_pause, say, tick
from webapp.base.identity import now_ms
from webapp.jobs import history, services, transitions
from webapp.jobs.history import History
from webapp.jobs.models import Attempt, Job
from webapp.jobs.services import Preemption
from webapp.pages.jobs import presentation

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
MINUTE_MS = 60_000


@pytest.fixture
def job(submit: Submit) -> Job:
    job = submit(num_gpus=2, preemptible=True)
    Job.objects.filter(id=job.id).update(submitted_ms=now_ms() - 5 * MINUTE_MS)
    tick()
    say(job, MemberPhase.RUNNING)
    return again(job)


def again(job: Job) -> Job:
    return Job.objects.get(id=job.id)


def reach(job: Job, step: int, *, first: bool = False) -> None:
    for each in (1, step) if first else (step,):
        services.progress(
            job.id, again(job).attempt, {"step": each, "total_steps": 3_000, "progress_ms": now_ms()}
        )


def ran_for(job: Job, ms: int) -> None:
    Attempt.objects.filter(job=job, ended_ms=None).update(placed_ms=now_ms() - ms)


def preempt(job: Job) -> None:
    services.preempt(job.id, Preemption(StopKind.EVICTED, "a more urgent job needs 2 slots"), now_ms())
    say(job, MemberPhase.EXITED, 143, end=EndReason.STOPPED)


def story(job: Job) -> History:
    return history.of(again(job), now_ms())


def test_a_preemption_without_a_checkpoint_says_what_is_lost(job: Job) -> None:
    reach(job, 1_488, first=True)
    ran_for(job, 5 * MINUTE_MS)
    preempt(job)
    [span] = story(job).spans
    assert (span.last_step, span.kept_step, span.lost_steps) == (1_488, None, 1_488)
    assert span.lost_gpu_ms == pytest.approx(10 * MINUTE_MS, abs=30_000)
    told = presentation.answer(again(job), now_ms()).detail
    assert "It has no checkpoint: 1,488 steps (10 min of slot time) lost, it begins again at step 1." in told


def test_a_preemption_with_a_checkpoint_loses_what_came_after_it(job: Job) -> None:
    reach(job, 1_488, first=True)
    transitions.step(job.id, CheckpointSaved(at_ms=now_ms(), attempt=1, step=1_400, checkpoint="ckpt-1"))
    preempt(job)
    assert story(job).lost_steps == 88
    assert story(job).lost_gpu_ms < MINUTE_MS
    told = presentation.answer(again(job), now_ms()).detail
    assert "It resumes from the checkpoint of step 1,400; 88 steps" in told


def test_the_whole_time_is_told_with_all_attempts_and_waits(job: Job) -> None:
    Attempt.objects.filter(job=job).update(placed_ms=now_ms() - 4 * MINUTE_MS)
    preempt(job)
    Attempt.objects.filter(job=job).update(ended_ms=now_ms() - MINUTE_MS)
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, 0)
    told = story(job)
    assert [span.number for span in told.spans] == [1, 2]
    assert [round(span.waited_ms / MINUTE_MS) for span in told.spans] == [1, 1]
    assert [round(ms / MINUTE_MS) for ms in (told.whole_ms, told.ran_ms, told.waited_ms)] == [5, 3, 2]
    assert told.lost_gpu_ms > 0
    answer = presentation.answer(again(job), now_ms())
    assert "all attempts and waits together took 5 min, 2 min of them pending." in answer.detail


def test_an_attempt_that_told_no_step_has_lost_none(job: Job) -> None:
    reach(job, 700, first=True)
    preempt(job)
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    preempt(job)
    assert [span.last_step for span in story(job).spans] == [700, None]
