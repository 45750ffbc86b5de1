"""Experiments and runs without a job: created, changed, archived, deleted, restored, by those who may."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.events.models import Event
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment, Run
from webapp.jobs import services as jobs
from webapp.quotas.models import Quota

Who = Callable[[User], Actor]


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def experiment(alice: Actor) -> Experiment:
    return services.create_experiment(alice, "vision", "rates")


def refusal(call: Callable[..., Any], *args: Any, **named: Any) -> str:
    with pytest.raises(TrainmasterError) as caught:
        call(*args, **named)
    return caught.value.code


def test_a_run_without_a_job_is_running_until_it_is_finished(alice: Actor, experiment: Experiment) -> None:
    run = services.create_run(alice, experiment, parameters={"lr": 0.1}, tags={"stage": "dev"}, source="sdk")
    assert (run.state, run.owner_name, run.name) == ("running", "alice", f"run-{run.id[:8]}")
    assert len(run.id) == 32
    done = services.finish_run(alice, run, "failed", ended_ms=run.created_ms + 5)
    assert (done.state, done.ended_ms) == ("failed", run.created_ms + 5)
    again = services.update_run(alice, run, state="running")
    assert again.ended_ms is None


def test_the_same_id_again_returns_the_same_run(
    alice: Actor, actor: Who, cast: Cast, experiment: Experiment
) -> None:
    first = services.create_run(alice, experiment, run_id="a" * 32, name="first")
    assert services.create_run(alice, experiment, run_id="a" * 32, name="second").name == first.name
    assert Run.objects.count() == 1
    carol = actor(cast.outsider)
    theirs = services.create_experiment(carol, "nlp", "rates")
    assert refusal(services.create_run, carol, theirs, run_id="a" * 32) == "idempotency_conflict"
    assert refusal(services.create_run, alice, experiment, run_id="A" * 32) == "request_invalid"


def test_a_run_of_a_job_follows_its_job_with_the_runs_below(
    alice: Actor, cast: Cast, vision: Any, settings: Any
) -> None:
    Quota.objects.create(team_id="vision", gpu_type="cpu", guaranteed=4, maximum=8)
    job, _ = jobs.submit(alice, job_mapping(tags=["fast"]))
    run = queries.find_run(alice, job.id)
    assert (run.state, run.name, run.tags, run.source) == ("pending", "bytelm", {"fast": ""}, "job")
    child = services.create_run(alice, run.experiment, parent=run)
    assert refusal(services.update_run, alice, run, state="failed") == "request_invalid"
    assert refusal(services.delete_runs, alice, [run.id]) == "illegal_transition"
    assert refusal(services.delete_experiment, alice, run.experiment) == "illegal_transition"
    jobs.cancel(alice, job.id)
    run = queries.find_run(alice, job.id)
    assert (run.state, run.ended_ms is not None) == ("cancelled", True)
    assert queries.find_run(alice, child.id).state == "cancelled"


def test_parameters_and_tags_are_added_and_removed(alice: Actor, experiment: Experiment) -> None:
    run = services.create_run(alice, experiment, parameters={"lr": 0.1})
    services.log_parameters(alice, run, {"depth": 3, "nested": {"a": [1, float("inf")]}})
    services.set_tags(alice, run, {"stage": "dev", "mlflow.note": "x"})
    services.set_tags(alice, run, {"stage": "prod"})
    services.delete_tags(alice, run, ["mlflow.note", "unknown"])
    run = queries.find_run(alice, run.id)
    assert run.parameters == {"lr": 0.1, "depth": 3, "nested": {"a": [1, "inf"]}}
    assert run.tags == {"stage": "prod"}


@pytest.mark.parametrize(
    ("verb", "given", "words"),
    [
        (services.log_parameters, {"": 1}, "name of a parameter is not valid"),
        (services.log_parameters, {"x" * 251: 1}, "251 characters; the limit is 250"),
        (services.log_parameters, {"lr": "9" * 6001}, "6,001 characters; the limit is 6,000"),
        (services.log_parameters, {"seed": 1 << 70}, "beyond 64 bits"),
        (services.set_tags, {"stage": 3}, "tag stage is not valid: 3 is not text"),
        (services.set_tags, {f"t{n}": "" for n in range(501)}, "501 tags; the limit is 500"),
    ],
)
def test_a_bad_field_is_named(
    alice: Actor, experiment: Experiment, verb: Any, given: dict[str, Any], words: str
) -> None:
    run = services.create_run(alice, experiment)
    with pytest.raises(TrainmasterError, match=words):
        verb(alice, run, given)


def test_deleting_a_parent_deletes_what_is_below_and_restoring_brings_it_back(
    alice: Actor, experiment: Experiment
) -> None:
    parent = services.create_run(alice, experiment, name="sweep")
    child = services.create_run(alice, experiment, parent=parent)
    gone = services.create_run(alice, experiment, parent=parent)
    services.delete_runs(alice, [gone.id])
    Run.objects.filter(id=gone.id).update(deleted_ms=1)
    assert services.delete_runs(alice, [parent.id]) == 2
    assert refusal(queries.find_run, alice, child.id) == "not_found"
    assert refusal(services.set_tags, alice, child, {"a": "b"}) == "illegal_transition"
    assert queries.find_run(alice, child.id, deleted=True).id == child.id
    assert services.restore_runs(alice, [parent.id]) == 2
    assert queries.find_run(alice, child.id).id == child.id
    assert refusal(queries.find_run, alice, gone.id) == "not_found"
    kinds = Event.objects.filter(subject_kind="run").order_by("id").values_list("kind", "actor")
    assert list(kinds) == [("RunDeleted", "user:alice")] * 3 + [("RunRestored", "user:alice")] * 2


def test_a_run_is_not_its_own_ancestor(alice: Actor, experiment: Experiment) -> None:
    parent = services.create_run(alice, experiment)
    child = services.create_run(alice, experiment, parent=parent)
    assert refusal(services.update_run, alice, parent, parent=child) == "request_invalid"


def test_an_archived_run_leaves_the_lists_and_keeps_its_page(alice: Actor, experiment: Experiment) -> None:
    run = services.create_run(alice, experiment)
    assert services.archive_runs(alice, [run.id]) == 1
    assert queries.runs(experiment.pk) == []
    assert queries.find_run(alice, run.id).archived_ms is not None
    assert services.restore_runs(alice, [run.id]) == 1
    assert [row.id for row in queries.runs(experiment.pk)] == [run.id]


def test_an_experiment_is_deleted_with_its_runs_and_its_name_is_free_again(
    alice: Actor, experiment: Experiment
) -> None:
    run = services.create_run(alice, experiment)
    services.delete_experiment(alice, experiment)
    assert refusal(queries.find_run, alice, run.id) == "not_found"
    assert refusal(services.create_run, alice, experiment) == "illegal_transition"
    assert refusal(services.restore_runs, alice, [run.id]) == "illegal_transition"
    successor = services.create_experiment(alice, "vision", "rates")
    assert queries.find_experiment(alice, "rates", deleted=True).pk == successor.pk
    assert refusal(services.restore_experiment, alice, experiment) == "duplicate_name"
    services.update_experiment(alice, successor, name="new rates")
    services.restore_experiment(alice, experiment)
    assert queries.find_run(alice, run.id).deleted_ms is None


def test_an_experiment_is_described_renamed_and_archived(alice: Actor, experiment: Experiment) -> None:
    services.update_experiment(alice, experiment, name="rates 2", description="# Why", tags={"goal": "speed"})
    services.archive_experiment(alice, experiment)
    assert queries.find_experiment(alice, "rates 2").description == "# Why"
    assert not queries.visible(None).exists()
    services.restore_experiment(alice, experiment)
    assert queries.visible(None).get().tags == {"goal": "speed"}
    assert refusal(services.create_experiment, alice, "vision", "rates 2") == "duplicate_name"
    assert services.ensure_experiment(alice, "vision", "rates 2").pk == experiment.pk


def test_only_members_write_and_only_owners_and_leads_delete(
    cast: Cast, actor: Who, experiment: Experiment
) -> None:
    alice, bob, lena = actor(cast.owner), actor(cast.member), actor(cast.lead)
    vera, carol = actor(cast.viewer), actor(cast.outsider)
    run = services.create_run(alice, experiment)
    for verb in (services.archive_runs, services.delete_runs, services.restore_runs):
        assert refusal(verb, vera, [run.id]) == "not_allowed"
        assert refusal(verb, carol, [run.id]) == "not_found"
    assert refusal(services.create_run, vera, experiment) == "not_allowed"
    assert refusal(services.create_run, carol, experiment) == "not_found"
    assert refusal(services.update_run, carol, run, name="x") == "not_found"
    assert refusal(services.delete_runs, bob, [run.id]) == "not_allowed"
    theirs = services.create_experiment(bob, "vision", "of bob")
    services.create_run(alice, theirs)
    assert refusal(services.delete_experiment, bob, theirs) == "not_allowed"
    services.delete_experiment(lena, theirs)
    assert services.delete_runs(lena, [run.id]) == 1


def test_the_audit_log_names_who_deleted_and_links_to_the_run(
    cast: Cast, browser: Callable[[User], Any], alice: Actor, experiment: Experiment
) -> None:
    run = services.create_run(alice, experiment, name="baseline")
    services.delete_runs(alice, [run.id])
    services.restore_runs(alice, [run.id])
    page = browser(cast.owner).get("/audit/?kind=RunDeleted").content.decode()
    assert f'href="/runs/{run.id}/"' in page
    assert "alice" in page
