"""The loop closes: drift submits a job by the recipe, its checkpoint passes the gate and takes over as a canary."""

from contextlib import contextmanager

import pytest
from django.db import transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.jobs.job import MemberPhase
from tests.webapp.evaluations.conftest import ends, snapshot
from tests.webapp.jobs.conftest import say, tick
from tests.webapp.retraining.conftest import Loop
from webapp.accounts import services as accounts
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.events.queries import story
from webapp.jobs.models import Job
from webapp.quotas.models import Quota
from webapp.registry.models import ModelVersion
from webapp.retraining import coordination, driving, looking, services
from webapp.retraining.models import Cycle, Policy
from webapp.serving import services as serving
from webapp.serving.models import Endpoint


def state(loop: Loop) -> str:
    return loop.cycle().state


def test_drift_goes_round_to_a_version_that_takes_over(loop: Loop) -> None:
    loop.set()
    loop.round()
    assert not Cycle.objects.exists(), "nothing has drifted"
    loop.drifts()
    loop.round()
    job = loop.job()
    assert (state(loop), job.user.username, job.cloned_from) == ("training", "lena", loop.first.job_id)
    assert (job.spec["dataset"], job.spec["command"], job.spec["num_gpus"]) == (
        loop.newer, ["train.py", "--rate", "0.1"], 2,
    )  # fmt: skip
    assert "repeats" not in job.lineage
    loop.round()
    loop.trains()
    version = loop.cycle().version
    assert version is not None
    assert (version.version, version.job_id, state(loop)) == (2, job.id, "evaluating")
    loop.round()
    assert state(loop) == "evaluating", "the suite of the gate has not measured it"
    loop.evaluates()
    loop.round()
    endpoint = Endpoint.objects.get(pk=loop.endpoint.pk)
    assert (state(loop), endpoint.canary_id) == ("canary", version.id)
    serving.promote(actor_of(loop.cast.lead), "vision", "mlp")
    loop.round()
    cycle = loop.cycle()
    assert (cycle.state, cycle.ended_ms is not None, cycle.reason) == ("promoted", True, "promoted by lena")
    version.refresh_from_db()
    assert version.stage == "production"
    assert ModelVersion.objects.get(pk=loop.first.pk).stage == "archived"
    kinds = [event.kind for event in story(f"retraining:{cycle.id}")]
    assert kinds == [
        "RetrainingBegun", "RetrainingTraining", "RetrainingEvaluating", "RetrainingDeploying", "RetrainingCanary",
        "RetrainingPromoted",
    ]  # fmt: skip
    loop.drifts()
    loop.round()
    assert Cycle.objects.count() == 1, "24 h must be between two beginnings"
    assert "24 h must be between" in Policy.objects.get().held["reasons"][0]


def test_every_costly_step_waits_for_a_lead(loop: Loop) -> None:
    loop.set(approve_training=True, approve_canary=True)
    loop.drifts()
    loop.round()
    loop.round()
    assert (state(loop), Job.objects.filter(user=loop.cast.lead, name="visits").count()) == ("requested", 0)
    lena = actor_of(loop.cast.lead)
    with pytest.raises(TrainmasterError) as refused:
        services.approve(actor_of(loop.cast.owner), loop.cycle().id)
    assert refused.value.code == "not_allowed"
    services.approve(lena, loop.cycle().id, "requested")
    with pytest.raises(TrainmasterError) as refused:
        services.approve(lena, loop.cycle().id, "requested")
    assert refused.value.code == "stale_version"
    loop.round()
    loop.trains()
    loop.evaluates()
    loop.round()
    assert state(loop) == "proven"
    services.approve(lena, loop.cycle().id)
    loop.round()
    assert (state(loop), loop.cycle().approved_by) == ("canary", ["lena", "lena"])


def test_a_version_that_is_worse_is_refused_with_the_reason(loop: Loop) -> None:
    loop.set()
    loop.drifts()
    loop.round()
    loop.trains()
    loop.evaluates(0.5)
    assert state(loop) == "refused"
    assert "held-out: accuracy is 0.5, at least 0.9" in loop.cycle().reason
    assert Endpoint.objects.get(pk=loop.endpoint.pk).canary_id is None


def test_a_canary_that_is_rolled_back_ends_the_cycle(loop: Loop) -> None:
    loop.set()
    loop.as_far_as_the_canary()
    serving.roll_back(actor_of(loop.cast.lead), "vision", "mlp")
    loop.round()
    assert (state(loop), loop.cycle().reason) == ("rolled_back", "rolled back by lena")


def test_it_waits_while_the_endpoint_watches_another_canary(loop: Loop) -> None:
    loop.set()
    loop.drifts()
    loop.round()
    loop.trains()
    Endpoint.objects.filter(pk=loop.endpoint.pk).update(
        canary=loop.first, canary_policy={"share": 100}, canary_since_ms=1
    )
    loop.evaluates()
    loop.round()
    assert (state(loop), loop.cycle().reason) == ("deploying", "mlp watches another canary")
    Endpoint.objects.filter(pk=loop.endpoint.pk).update(canary=None)
    loop.round()
    assert (state(loop), loop.cycle().reason) == ("canary", "")


def test_a_full_quota_delays_the_job_and_a_lost_right_ends_the_cycle(loop: Loop) -> None:
    loop.set()
    Quota.objects.filter(team="vision").update(guaranteed=0, maximum=0)
    loop.drifts()
    loop.round()
    assert state(loop) == "submitting"
    assert "quota" in loop.cycle().reason
    accounts.set_role(SYSTEM, "vision", "bob", Role.LEAD)
    accounts.set_role(SYSTEM, "vision", "lena", Role.VIEWER)
    loop.round()
    assert state(loop) == "failed"
    assert loop.cycle().reason.startswith("lena cannot go on with it")


def test_a_job_that_fails_or_saves_nothing_ends_the_cycle(loop: Loop) -> None:
    loop.set(min_interval_hours=1)
    loop.drifts()
    loop.round()
    tick()
    job = loop.job()
    say(job, MemberPhase.RUNNING)
    ends(job)
    loop.round()
    assert (state(loop), loop.cycle().reason) == ("failed", "its job saved no checkpoint that can be used")


def test_a_worker_that_dies_between_the_job_and_its_row_leaves_neither(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.set()
    loop.drifts()
    jobs_before = Job.objects.count()

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(driving, "step", killed)
        with pytest.raises(Killed):
            loop.round()
    assert (Job.objects.count(), state(loop)) == (jobs_before, "submitting")
    loop.round()
    loop.round()
    assert (Job.objects.count(), state(loop)) == (jobs_before + 1, "training")


def test_a_round_on_old_news_and_a_leader_that_leads_no_more_start_no_second_job(loop: Loop) -> None:
    loop.set()
    loop.drifts()
    policy = Policy.objects.select_related("model", "author").get()
    looking.look(policy)
    looking.look(policy)
    assert Cycle.objects.count() == 1
    stale = loop.cycle()

    @contextmanager
    def lost():  # type: ignore[no-untyped-def]
        with transaction.atomic():
            raise lease.LostLease
            yield

    before = Job.objects.count()
    with pytest.raises(lease.LostLease):
        driving._submit(stale, lost)
    assert Job.objects.count() == before
    driving._submit(stale, transaction.atomic)
    driving._submit(stale, transaction.atomic)
    assert Job.objects.count() == before + 1
    loop.trains()
    training = Cycle.objects.select_related("model", "author").get()
    training.state = "training"
    driving._register(training, transaction.atomic)
    assert ModelVersion.objects.filter(model=loop.model).count() == 2


def test_another_leader_keeps_this_one_out(loop: Loop) -> None:
    held = lease.acquire("retraining", "another")
    assert held is not None
    assert not coordination.coordinate()
    lease.release(held)
    assert coordination.coordinate()


def test_a_cycle_that_is_ended_stops_its_job(loop: Loop) -> None:
    loop.set()
    loop.drifts()
    loop.round()
    services.cancel(actor_of(loop.cast.lead), loop.cycle().id)
    assert (state(loop), loop.job().state, loop.cycle().reason) == (
        "cancelled",
        "cancelled",
        "cancelled by lena",
    )
    with pytest.raises(IllegalTransition):
        services.cancel(actor_of(loop.cast.lead), loop.cycle().id)
    loop.round()
    assert Cycle.objects.count() == 1


def test_a_cycle_that_is_ended_rolls_its_canary_back(loop: Loop) -> None:
    loop.set()
    loop.as_far_as_the_canary()
    services.cancel(actor_of(loop.cast.lead), loop.cycle().id)
    assert Endpoint.objects.get(pk=loop.endpoint.pk).canary_id is None


def test_a_member_begins_a_cycle_within_the_limits(loop: Loop) -> None:
    bob = actor_of(loop.cast.member)
    with pytest.raises(TrainmasterError) as refused:
        services.start(bob, loop.model)
    assert refused.value.code == "not_found"
    loop.set(gpu_hours_a_week=1)
    with pytest.raises(TrainmasterError) as refused:
        services.start(bob, loop.model)
    assert refused.value.code == "retraining_held"
    assert "the next job may need 2; the budget is 1" in refused.value.sentence
    loop.set()
    cycle = services.start(bob, loop.model)
    assert (cycle.trigger, cycle.cause, cycle.author.username) == ("person", "bob asked for it", "lena")
    with pytest.raises(TrainmasterError, match="a cycle is under way"):
        services.start(bob, loop.model)


def test_the_newest_data_that_is_approved_is_taken_and_the_wait_for_it_is_said(loop: Loop) -> None:
    snapshot(loop.cast.owner, "visits", {"secret.bin": b"secret"}, "evaluation")
    loop.set(needs_new_data=True)
    loop.drifts()
    loop.round()
    assert loop.job().spec["dataset"] == loop.newer, "the newest is not approved for training"


def test_without_newer_data_nothing_begins_where_the_policy_needs_it(loop: Loop) -> None:
    Job.objects.filter(pk=loop.first.job_id).update(
        spec={**Job.objects.get(pk=loop.first.job_id).spec, "dataset": loop.newer}
    )
    loop.set(needs_new_data=True)
    loop.drifts()
    loop.round()
    assert not Cycle.objects.exists()
    assert Policy.objects.get().held["reasons"] == ["there is no newer version of its dataset"]


def test_age_and_an_evaluated_metric_begin_cycles_without_an_endpoint(loop: Loop) -> None:
    loop.set(endpoint="", drift=False, decay_suite="held-out", decay_metric="accuracy", decay_bound=0.97)
    loop.round()
    cycle = loop.cycle()
    assert (cycle.trigger, cycle.endpoint, cycle.state) == ("decay", None, "training")
    assert cycle.cause.startswith("accuracy is 0.95 and it must be at least 0.97")
    loop.trains()
    loop.evaluates()
    assert state(loop) == "accepted"


def test_a_model_that_is_not_in_production_says_so(loop: Loop) -> None:
    loop.set(endpoint="other")
    loop.round()
    assert "the team has no endpoint other" in Policy.objects.get().held["reasons"][0]
    loop.set(endpoint="", drift=False, max_age_days=1)
    ModelVersion.objects.update(stage="none")
    loop.round()
    assert "no version of it is in the stage production" in Policy.objects.get().held["reasons"][0]


def test_a_policy_that_is_deleted_lets_its_cycle_go_on(loop: Loop) -> None:
    loop.set()
    loop.drifts()
    loop.round()
    services.delete_policy(actor_of(loop.cast.lead), loop.model)
    loop.trains()
    assert state(loop) == "evaluating"
