"""What people write about models: names, descriptions, tags, stages, aliases; and their deletion."""

import io
from collections.abc import Callable
from functools import partial

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import services as experiments
from webapp.experiments.models import RunArtifact
from webapp.registry import facts, queries, services
from webapp.registry.models import Model, ModelVersion

Who = Callable[[User], Actor]


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def model(alice: Actor) -> Model:
    return services.create_model(alice, "vision", "Wine Quality", tags={"stage": "dev"})


def version_of(actor: Actor, model: Model) -> ModelVersion:
    return services.register_logged(actor, model, "s3://elsewhere/model")


def refusal(call: Callable[..., object], *args: object) -> str:
    with pytest.raises(TrainmasterError) as caught:
        call(*args)
    return caught.value.code


def test_a_name_is_taken_until_its_model_is_deleted(alice: Actor, model: Model) -> None:
    assert refusal(services.create_model, alice, "vision", model.name) == "duplicate_name"
    services.delete_model(alice, model)
    assert queries.model("vision", model.name) is None
    again = services.create_model(alice, "vision", model.name)
    assert version_of(alice, again).version == 1


@pytest.mark.parametrize("name", ["a/b", "a:b", " ", "", "..", "x" * 251, "a\nb"])
def test_a_name_fits_into_an_address(alice: Actor, name: str) -> None:
    assert refusal(services.create_model, alice, "vision", name) == "request_invalid"


def test_a_renamed_model_keeps_its_versions(alice: Actor, model: Model) -> None:
    version = version_of(alice, model)
    services.rename_model(alice, model, "wine")
    assert [row.id for row in queries.versions(Model.objects.get(name="wine"))] == [version.id]
    services.create_model(alice, "vision", "taken")
    assert refusal(services.rename_model, alice, model, "taken") == "duplicate_name"


def test_tags_are_added_replaced_and_removed(alice: Actor, model: Model) -> None:
    services.set_tags(alice, model, {"stage": "prod", "framework": "torch"})
    services.delete_tags(alice, model, ["framework", "unknown"])
    assert Model.objects.get().tags == {"stage": "prod"}


def test_an_alias_moves_from_version_to_version(alice: Actor, model: Model) -> None:
    first, second = version_of(alice, model), version_of(alice, model)
    services.set_alias(alice, first, "champion")
    services.set_alias(alice, second, "champion")
    assert [(alias.name, alias.version_id) for alias in model.aliases.all()] == [("champion", second.id)]
    services.delete_version(alice, second)
    assert not model.aliases.exists()
    assert version_of(alice, model).version == 3


def test_a_promotion_archives_what_was_in_the_stage(alice: Actor, model: Model) -> None:
    first, second = version_of(alice, model), version_of(alice, model)
    services.set_stage(alice, first, "production")
    services.set_stage(alice, second, "production", archive_others=True)
    stages = ModelVersion.objects.order_by("version").values_list("stage", flat=True)
    assert list(stages) == ["archived", "production"]


def test_only_a_recall_moves_a_version_to_recalled(alice: Actor, model: Model) -> None:
    version = version_of(alice, model)
    assert version.stage == "candidate"
    for stage in ("validated", "archived", "candidate"):
        assert services.set_stage(alice, version, stage).stage == stage
    for stage in ("recalled", "none"):
        assert refusal(services.set_stage, alice, version, stage) == "request_invalid"
    services.demote([version.id], "its data was wrong")
    assert refusal(services.set_stage, alice, version, "archived") == "illegal_transition"
    services.restore([version.id], "the recall was lifted")
    assert ModelVersion.objects.get().stage == "candidate"


def test_a_version_of_a_runs_files_can_be_deployed_and_one_from_elsewhere_cannot(
    alice: Actor, model: Model
) -> None:
    run = experiments.create_run(alice, experiments.create_experiment(alice, "vision", "rates"))
    experiments.put_file(alice, run, "model/MLmodel", io.BytesIO(b"flavors"))
    version = services.register_logged(alice, model, "runs:/x/model", files=(run, "model"), run=run)
    assert (version.state, version.manifest.files, version.run_id) == ("ready", 1, run.id)  # type: ignore[union-attr]
    assert version_of(alice, model).state == "external"


def test_an_artifact_of_a_run_is_registered_with_its_lineage(cast: Cast, actor: Who, alice: Actor) -> None:
    run = experiments.create_run(alice, experiments.create_experiment(alice, "vision", "rates"))
    experiments.put_file(alice, run, "exported/model.pt2", io.BytesIO(b"program"))
    version = services.register(alice, "vision", "wine", artifact=f"{run.id}/exported")
    assert (version.state, version.run_id, version.source) == ("ready", run.id, f"{run.id}/exported")
    assert facts.formats(version) == ["torch_export"]
    job = experiments.create_run(alice, run.experiment)
    RunArtifact.objects.create(
        run=job, name="exported", manifest=version.manifest, created_ms=1
    )  # as agents report
    again = services.register(alice, "vision", "wine", artifact=f"{job.id}/exported")
    assert (again.version, again.run_id, again.manifest_id) == (2, job.id, version.manifest_id)
    admin = actor(cast.admin)
    for team, artifact in (
        ("vision", f"{run.id}/other"),
        ("nlp", f"{run.id}/exported"),
        ("vision", "no-run/x"),
    ):
        assert refusal(partial(services.register, admin, team, "wine", artifact=artifact)) == "not_found"
    assert refusal(partial(services.register, alice, "vision", "wine")) == "request_invalid"


def test_who_may_change_and_delete(cast: Cast, actor: Who, alice: Actor, model: Model) -> None:
    bob, vera, carol, lena = (actor(who) for who in (cast.member, cast.viewer, cast.outsider, cast.lead))
    version = version_of(alice, model)
    assert refusal(services.describe, carol, model, "mine") == "not_found"
    assert refusal(services.describe, vera, version, "mine") == "not_allowed"
    services.describe(bob, version, "ours")
    assert refusal(services.delete_version, bob, version) == "not_allowed"
    assert refusal(services.delete_model, bob, model) == "not_allowed"
    assert refusal(services.delete_model, carol, model) == "not_found"
    services.delete_version(lena, version)
    services.delete_model(bob, model)
