"""The server evaluates a candidate in a job of its own, and what it measured is told from what people send."""

import json
from collections.abc import Callable

import pytest

from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.reader import SpecError
from platform_core.lineage.graph import Item, Kind
from platform_core.registry.stages import Stage
from tests.webapp.conftest import Cast
from tests.webapp.evaluations.conftest import (
    POLICY,
    TRAINING,
    ends,
    hands_over,
    job_of,
    lines,
    measured,
    round_,
    run_of,
    snapshot,
    suite_file,
)
from tests.webapp.jobs.conftest import say
from tests.webapp.world import job_mapping
from trainmaster.evaluation import RESULTS, VALIDATION
from webapp.accounts import services as accounts
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.evaluations import services
from webapp.evaluations.models import EvaluationRun, Suite
from webapp.experiments import services as experiments
from webapp.experiments.models import Run
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.lineage import queries as lineage
from webapp.lineage import services as recall_services
from webapp.quotas.models import Quota
from webapp.registry import catalogue, gates, queries
from webapp.registry.models import Evaluation, ModelVersion

Candidate = Callable[..., ModelVersion]


def fresh(version: ModelVersion) -> ModelVersion:
    return queries.numbered(version.model, version.version)


def refusals(version: ModelVersion, stage: Stage = Stage.STAGING) -> str:
    row = fresh(version)
    row.model.refresh_from_db()
    return "; ".join(gates.refusals(row, stage))


def test_a_candidate_is_evaluated_by_itself_and_passes_by_what_the_server_measured(
    cast: Cast, candidate: Candidate, held_out: str
) -> None:
    version = candidate()
    assert run_of(version).state == "waiting"
    job = job_of(version)
    assert (job.user.username, job.team_id, job.name) == ("lena", "vision", "held-out v1 of bytelm:1")
    spec = job.spec
    assert (spec["model"], spec["dataset"], spec["purpose"]) == ("bytelm:1", held_out, "evaluation")
    say(job, MemberPhase.RUNNING)
    round_()
    assert run_of(version).state == "running"
    hands_over(job, RESULTS, "\n".join(lines(0.95)))
    ends(job)
    assert refusals(version) == "held-out has not evaluated this version"
    round_()
    assert run_of(version).state == "done"
    row = Evaluation.objects.get(version=version)
    assert (row.by_server, row.job_id, row.suite_version, row.sample_count) == (True, job.id, 1, 100)
    assert row.metrics["accuracy"]["low"] < 0.95 < row.metrics["accuracy"]["high"]
    assert set(row.slices) == {"half = 0", "half = 1"}
    assert refusals(version) == ""
    round_()
    assert Job.objects.count() == 1


def test_what_a_person_sends_counts_only_where_the_policy_lets_it(cast: Cast, candidate: Candidate) -> None:
    version = candidate()
    gates.evaluate(actor_of(cast.owner), version, "held-out", lines(1.0))
    assert "were sent by a person" in refusals(version)
    measured(version, 0.5)
    gates.evaluate(actor_of(cast.owner), version, "held-out", lines(1.0))
    assert refusals(version) == "held-out: accuracy is 0.5, at least 0.9"
    gates.set_policy(actor_of(cast.lead), version.model, {**POLICY, "measured_by": "anyone"})
    assert refusals(version) == "held-out: accuracy is 0.5, at least 0.9", "the server's take precedence"


def test_files_that_a_person_puts_into_the_run_are_no_results(cast: Cast, candidate: Candidate) -> None:
    version = candidate()
    job = job_of(version)
    run = Run.objects.get(pk=job.id)
    experiments.put_file(actor_of(cast.owner), run, RESULTS, [b"\n".join(map(str.encode, lines(1.0)))])
    ends(job)
    round_()
    assert (run_of(version).state, run_of(version).reason[:11]) == ("failed", "its job lef")
    assert not Evaluation.objects.exists()


def test_a_failed_job_is_a_failed_evaluation_and_can_be_run_again(cast: Cast, candidate: Candidate) -> None:
    version, bob = candidate(), actor_of(cast.member)
    job = job_of(version)
    assert services.evaluate(bob, version, "held-out") == (run_of(version), False), "it is under way"
    jobs.cancel(actor_of(cast.lead), job.id)
    ends(job, 1)
    round_()
    failed = run_of(version)
    assert failed.state == "failed"
    assert failed.reason.startswith("its job cancelled")
    again, new = services.evaluate(bob, version, "held-out")
    assert (new, again.number) == (True, 2)
    first = measured(version)
    done = run_of(version)
    assert (done.state, done.job_id, first.user.username) == ("done", first.id, "lena")
    assert services.evaluate(bob, version, "held-out") == (done, False)
    assert services.evaluate(bob, version, "held-out", again=True)[0].number == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no samples"),
        ('{"id": 1, "metrics": {"f1": 1}}', "no metric accuracy"),
        ("}", "line 1"),
    ],
)
def test_results_that_are_none_fail_the_evaluation(candidate: Candidate, text: str, why: str) -> None:
    version = candidate()
    job = job_of(version)
    hands_over(job, RESULTS, text)
    ends(job)
    round_()
    assert run_of(version).state == "failed"
    assert why in run_of(version).reason
    assert not Evaluation.objects.exists()


def test_a_quota_that_is_full_delays_and_an_author_who_left_ends_it(cast: Cast, candidate: Candidate) -> None:
    Quota.objects.update(maximum=0, guaranteed=0)
    version = candidate()
    round_()
    assert (run_of(version).state, run_of(version).job) == ("waiting", None)
    assert "quota" in run_of(version).reason
    accounts.set_role(SYSTEM, "vision", "bob", Role.LEAD)
    accounts.remove_member(SYSTEM, "vision", "lena")
    round_()
    assert run_of(version).state == "failed"
    assert run_of(version).reason.startswith("lena cannot submit its job")


def test_a_comparison_has_production_measured_by_the_same_suite(
    cast: Cast, candidate: Candidate, held_out: str
) -> None:
    first = candidate()
    measured(first, 0.97)
    catalogue.set_stage(actor_of(cast.lead), fresh(first), "production")
    margin = {"suite": "held-out", "metric": "accuracy", "worse_by": 0.01}
    gates.set_policy(actor_of(cast.lead), first.model, {**POLICY, "margins": [margin]})
    services.publish(actor_of(cast.lead), suite_file(held_out, command="harder.py"))
    second = candidate(b"other weights")
    assert [run_of(one).suite.version for one in (first, second)] == [2, 2]
    measured(second, 0.92)
    assert "was not compared with production" in refusals(second)
    measured(first, 0.97)
    assert "worse than production (100 pairs" in refusals(second)


def test_a_model_that_was_trained_on_the_evaluation_data_is_refused(
    cast: Cast, candidate: Candidate, held_out: str
) -> None:
    policy = {**POLICY, "uncontaminated": True}
    found = {}
    for name, files in {"clean": TRAINING, "dirty": {**TRAINING, "copy.bin": b"test", "none": b""}}.items():
        data = snapshot(cast.lead, name, files, "train")
        job, _ = jobs.submit(actor_of(cast.owner), job_mapping(dataset=data, purpose="train"))
        version = candidate(name.encode(), job.id)
        gates.set_policy(actor_of(cast.lead), version.model, policy)
        measured(version)
        found[name] = refusals(version)
        [row] = version.evaluations.all()
        assert row.contamination["datasets"] == [data]
        assert row.contamination["paths"] == (["test.bin"] if name == "dirty" else [])
    assert found == {"clean": "", "dirty": "its training data has 1 file of the evaluation data of held-out"}


def test_what_a_version_began_from_is_looked_at_and_what_is_unknown_is_said(
    cast: Cast, candidate: Candidate, held_out: str
) -> None:
    dirty = snapshot(cast.lead, "dirty", {"copy.bin": b"test"}, "train")
    clean = snapshot(cast.lead, "clean", TRAINING, "train")
    alice = actor_of(cast.owner)
    before, _ = jobs.submit(alice, job_mapping(dataset=dirty, purpose="train"))
    base = candidate(b"base", before.id)
    tuned, _ = jobs.submit(alice, job_mapping(dataset=clean, purpose="train", model="bytelm:1"))
    version = candidate(b"tuned", tuned.id)
    gates.set_policy(actor_of(cast.lead), version.model, {**POLICY, "uncontaminated": True})
    measured(version)
    assert "1 file of the evaluation data" in refusals(version)
    unknown = candidate(b"from elsewhere")
    measured(unknown)
    assert refusals(unknown) == (
        "the evaluation data of held-out was not compared with the training data: no job of this platform made "
        "bytelm v3"
    )
    gates.evaluate(alice, base, "held-out", lines(1.0))
    assert "were sent by a person" in refusals(base)


def test_weights_pass_their_validation_or_say_why_not(cast: Cast, candidate: Candidate) -> None:
    version = candidate()
    gates.set_policy(actor_of(cast.lead), version.model, {**POLICY, "self_validation": True})
    measured(version)
    assert refusals(version) == "self-validation has not passed: it has not run"
    assert version.manifest_id is not None
    digest = artifacts.file_list(version.manifest_id)[0]["sha256"]
    sound = {"numbers": 4, "not_finite": 0, "norm": 2.0}
    for files, tensor, why in (
        ({"weights.bin": digest}, {**sound, "not_finite": 1}, "values are not finite in 1 tensor: w"),
        ({"weights.bin": "0" * 64}, sound, "its files differ from what was registered: weights.bin"),
        ({"weights.bin": digest}, {**sound, "norm": 0.0}, "all values of its 1 tensor are zero"),
        ({"weights.bin": digest}, sound, ""),
    ):
        services.evaluate(actor_of(cast.member), version, "held-out", again=True)
        job = job_of(version)
        hands_over(job, VALIDATION, json.dumps({"files": files, "tensors": {"w": tensor}}))
        hands_over(job, RESULTS, "\n".join(lines(0.95)))
        ends(job)
        round_()
        assert refusals(version) == (f"self-validation has not passed: {why}" if why else "")


def test_an_approval_does_not_outlive_the_results_it_was_given_for(cast: Cast, candidate: Candidate) -> None:
    version, lena = candidate(), actor_of(cast.lead)
    gates.set_policy(lena, version.model, {**POLICY, "approvals": 1})
    measured(version, 0.95)
    gates.approve(lena, fresh(version))
    assert refusals(version, Stage.PRODUCTION) == ""
    services.evaluate(lena, version, "held-out", again=True)
    measured(version, 0.95)
    assert refusals(version, Stage.PRODUCTION) == "", "the same results"
    services.evaluate(lena, version, "held-out", again=True)
    measured(version, 0.92)
    assert refusals(version, Stage.PRODUCTION).endswith("the results have changed since lena approved it")
    with pytest.raises(TrainmasterError) as stale:
        gates.approve(lena, fresh(version), seen="0" * 64)
    assert stale.value.code == "stale_version"
    gates.approve(lena, fresh(version))
    assert refusals(version, Stage.PRODUCTION) == ""


def test_only_leads_publish_and_the_same_suite_is_no_new_version(
    cast: Cast, suite: Suite, held_out: str
) -> None:
    with pytest.raises(TrainmasterError, match="publish evaluation suites"):
        services.publish(actor_of(cast.member), suite_file(held_out))
    assert services.publish(actor_of(cast.lead), suite_file(held_out)) == (suite, False)
    changed, new = services.publish(actor_of(cast.lead), suite_file(held_out, num_gpus=2))
    assert (changed.version, new) == (2, True)


def test_a_suite_that_cannot_be_kept_is_refused_with_every_problem(cast: Cast, cluster: object) -> None:
    wrong = snapshot(cast.lead, "other", TRAINING, "train")
    for fields, why in (
        (suite_file("", metrics={}, secrets=["HF_TOKEN"], model="a:1"), "metrics"),
        (suite_file(""), ""),
        (suite_file(wrong), "approved for train, and the job's purpose is evaluation"),
        (suite_file("", code="man-0"), "no code bundle"),
    ):
        if not why:
            services.publish(actor_of(cast.lead), fields)
            continue
        with pytest.raises(SpecError, match=why) as refused:
            services.publish(actor_of(cast.lead), fields)
        assert refused.value.code == "suite_invalid"
    assert Suite.objects.count() == 1
    assert EvaluationRun.objects.count() == 0


def test_results_on_recalled_data_do_not_count(cast: Cast, candidate: Candidate, held_out: str) -> None:
    version = candidate()
    measured(version)
    assert refusals(version) == ""
    alice, item = actor_of(cast.lead), Item(Kind.DATASET, held_out)
    found = lineage.family(alice, item)
    assert Kind.EVALUATION in {one.kind for one in found.down.items}
    recalled = recall_services.recall(alice, item, "half of it was trained on")
    assert refusals(version) == "held-out has not evaluated this version"
    recall_services.lift(alice, recalled.id)
    assert refusals(version) == ""
