"""A sweep from its file to its best trial, and what happens to its trials on the way."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from tests.webapp.jobs.conftest import say, tick
from tests.webapp.sweeps.conftest import FIELDS, again, ends, job_of, reports, round_, runs, trial
from webapp.accounts.models import Membership, User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job
from webapp.quotas.models import Quota
from webapp.sweeps import coordination, driving, queries, services
from webapp.sweeps.models import Sweep, Trial

MakeSweep = Callable[..., Sweep]


def test_trials_are_jobs_of_the_team_and_the_best_one_wins(sweep: MakeSweep) -> None:
    row = sweep()
    for numbers in ((1, 2), (3, 4)):
        round_()
        runs(row, *numbers)
        for number in numbers:
            reports(row, number, (1, 5.0), (2, float(number)))
            ends(row, number)
    assert coordination.coordinate()
    assert again(row).state == "finished"
    best = queries.best_of(again(row))
    assert best is not None
    assert (best.number, best.value, best.step) == (1, 1.0, 2)
    job = job_of(row, 1)
    assert job.name == "lr-1"
    assert job.spec["hyperparameters"] == {"width": 64, **trial(row, 1).parameters}
    assert job.spec["tags"] == [f"sweep={row.id}", "trial=1"]
    assert job.run.experiment.name == "lr"


def test_no_more_trials_run_at_once_than_its_parallelism(sweep: MakeSweep) -> None:
    row = sweep(parallel=3)
    round_()
    round_()
    assert Job.objects.count() == 3
    assert Trial.objects.filter(sweep=row).count() == 3


def test_a_worker_that_dies_after_the_proposal_loses_no_trial(sweep: MakeSweep, monkeypatch: Any) -> None:
    row = sweep()

    class Killed(BaseException):
        """As SIGKILL between two statements: nothing after it runs."""

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(driving, "submit", killed)
        with pytest.raises(Killed):
            driving.drive(row.id, transaction.atomic)
    assert set(Trial.objects.values_list("state", flat=True)) == {"proposed"}
    round_()
    assert Trial.objects.count() == Job.objects.count() == 2


def test_a_worker_that_dies_after_the_submission_submits_nothing_twice(
    sweep: MakeSweep, monkeypatch: Any
) -> None:
    row = sweep()
    with monkeypatch.context() as patched:
        patched.setattr(driving, "stop", lambda *_: None)
        driving.drive(row.id, transaction.atomic)
    # As if the record of the trials had been lost with the worker, but not their jobs.
    Trial.objects.update(state="proposed", job=None)
    round_()
    assert Job.objects.count() == 2
    assert [job_of(row, number).name for number in (1, 2)] == ["lr-1", "lr-2"]


def test_a_trial_that_is_worse_is_pruned_and_its_script_may_save(sweep: MakeSweep) -> None:
    row = sweep(early_stopping={"rule": "asha", "min_steps": 10, "eta": 2, "save": True})
    round_()
    runs(row, 1, 2)
    reports(row, 1, (10, 1.0))
    assert coordination.coordinate()
    reports(row, 2, (5, 1.0), (10, 2.0))
    assert coordination.coordinate()
    assert coordination.coordinate()  # a second look changes nothing
    pruned, job = trial(row, 2), job_of(row, 2)
    assert pruned.state == "pruned"
    assert pruned.reason == "its loss of 2 at step 10 is number 2 of 2 trials; the best goes on"
    assert job.stop == "cancel"
    assert job.stop_grace_ms == 60_000
    assert pruned.reason in job.reason
    ends(row, 2)
    round_()
    assert trial(row, 2).settled
    assert trial(row, 3).job is not None


def test_a_preempted_trial_resumes_and_is_not_failed(sweep: MakeSweep, cluster: Any) -> None:
    row = sweep(budget={"trials": 1}, job={"command": "train.py", "gpu_type": "cpu", "preemptible": True})
    round_()
    runs(row, 1)
    assert coordination.coordinate()
    job = job_of(row, 1)
    assert jobs.preempt(job.id, jobs.Preemption(StopKind.EVICTED, "somebody needs it"), now_ms())
    say(job, MemberPhase.EXITED, 143)
    assert coordination.coordinate()
    assert job_of(row, 1).state in {"preempted", "pending"}
    assert trial(row, 1).state == "running"
    tick()
    runs(row, 1)
    reports(row, 1, (3, 0.5))
    ends(row, 1)
    round_()
    assert (trial(row, 1).state, trial(row, 1).value) == ("succeeded", 0.5)
    assert Attempt.objects.filter(job=job).count() == 2


def test_failures_in_a_row_pause_the_sweep_until_somebody_looks(sweep: MakeSweep, owner: User) -> None:
    row = sweep(max_failures=2, job={"command": "train.py", "gpu_type": "cpu", "max_restarts": 0})
    round_()
    runs(row, 1, 2)
    ends(row, 1, exit_code=1)
    ends(row, 2, exit_code=1)
    round_()
    assert again(row).state == "paused"
    assert again(row).reason.startswith("2 trials in a row failed, the last one because")
    assert Trial.objects.count() == 2
    services.resume(actor_of(owner), row.id)
    round_()
    assert (again(row).state, Trial.objects.count()) == ("running", 4)


def test_a_trial_without_the_metric_has_failed(sweep: MakeSweep) -> None:
    row = sweep()
    round_()
    runs(row, 1)
    reports(row, 1, (1, 2.0), key="los")
    ends(row, 1)
    assert coordination.coordinate()
    assert (trial(row, 1).state, trial(row, 1).reason) == ("failed", "it ended without a value of loss")


def test_the_value_waits_for_the_last_points_of_the_agents(sweep: MakeSweep) -> None:
    row = sweep()
    round_()
    runs(row, 1)
    say(job_of(row, 1), MemberPhase.EXITED, 0)
    assert coordination.coordinate()
    assert trial(row, 1).state == "running"
    reports(row, 1, (9, 0.25))
    ends(row, 1)
    assert coordination.coordinate()
    assert (trial(row, 1).state, trial(row, 1).value) == ("succeeded", 0.25)


def test_a_sweep_waits_while_the_quota_is_full(sweep: MakeSweep) -> None:
    Quota.objects.update(maximum=1, guaranteed=1, queue_beyond=False)
    row = sweep()
    round_()
    assert again(row).state == "running"
    assert [trial(row, number).state for number in (1, 2)] == ["submitted", "proposed"]


def test_a_refused_trial_pauses_the_sweep_with_the_reason(sweep: MakeSweep, owner: User) -> None:
    row = sweep()
    Membership.objects.filter(user=owner).update(role="viewer")
    round_()
    assert again(row).state == "paused"
    assert again(row).reason.startswith("trial 1 was not accepted: You may not submit jobs for this team")
    Membership.objects.filter(user=owner).update(role="member")
    services.resume(SYSTEM, row.id)
    round_()
    assert Job.objects.count() == 2


def test_a_cancelled_sweep_stops_its_jobs(sweep: MakeSweep, owner: User) -> None:
    row = sweep()
    round_()
    runs(row, 1)
    services.cancel(actor_of(owner), row.id)
    round_()
    assert job_of(row, 1).stop == "cancel"
    assert job_of(row, 2).state in {"cancelled", "scheduled"}
    ends(row, 1, exit_code=0)
    round_()
    assert again(row).state == "cancelled"
    assert {trial(row, number).state for number in (1, 2)} == {"cancelled"}


def test_a_spent_budget_stops_the_trials_until_it_is_raised(sweep: MakeSweep, owner: User) -> None:
    row = sweep(budget={"trials": 4, "hours": 1})
    round_()
    Sweep.objects.update(created_ms=1)
    round_()
    assert (again(row).state, again(row).reason) == ("out_of_budget", "its 1 h are over")
    with pytest.raises(TrainmasterError, match="resume is not possible now"):
        services.resume(actor_of(owner), row.id)
    services.change_budget(actor_of(owner), row.id, {"hours": 0})
    assert again(row).state == "running"


def test_only_the_owner_and_leads_steer_a_sweep(
    sweep: MakeSweep, member: User, lead: User, outsider: User
) -> None:
    row = sweep()
    with pytest.raises(TrainmasterError, match="ask a lead of vision"):
        services.pause(actor_of(member), row.id)
    with pytest.raises(TrainmasterError, match="There is no sweep"):
        services.pause(actor_of(outsider), row.id)
    services.pause(actor_of(lead), row.id)
    assert (again(row).state, again(row).reason) == ("paused", "paused by lena")


def test_the_problems_of_the_job_are_told_at_the_start(sweep: MakeSweep) -> None:
    with pytest.raises(TrainmasterError) as refused:
        sweep(job={"command": "", "gpu_typ": "cpu"})
    problems = {problem.field: problem.sentence for problem in refused.value.problems}  # type: ignore[attr-defined]
    assert "job.command" in problems
    assert problems["job.gpu_typ"] == "job: gpu_typ is not a field; did you mean gpu_type?"


def test_the_same_key_gives_the_same_sweep(sweep: MakeSweep, owner: User, cluster: Any) -> None:
    first, new = services.create(actor_of(owner), FIELDS, idempotency_key="k")
    second, again_new = services.create(actor_of(owner), FIELDS, idempotency_key="k")
    assert (first.id, new, again_new) == (second.id, True, False)
