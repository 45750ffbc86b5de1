"""An endpoint that follows an alias, and one whose replicas do not come up."""

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.world import endpoint_mapping
from webapp.accounts.queries import actor_of
from webapp.jobs.models import Job
from webapp.registry import services as registry
from webapp.registry.models import ModelAlias, ModelVersion
from webapp.serving import coordination, services
from webapp.serving.models import Endpoint


@pytest.fixture
def endpoint(cast: Cast, versions: list[ModelVersion]) -> Endpoint:
    registry.set_alias(actor_of(cast.owner), versions[0], "best")
    return services.create(actor_of(cast.owner), endpoint_mapping(alias="best"))


def advanced(row: Endpoint) -> tuple[str, str | None]:
    """The version in use and the one under trial."""
    coordination.advance(row.id)
    row.refresh_from_db()
    return row.stable_id, row.canary_id


def test_a_version_that_the_alias_moves_to_is_tried_once(
    cast: Cast, endpoint: Endpoint, versions: list[ModelVersion]
) -> None:
    assert advanced(endpoint) == ("mv-1", None)
    registry.set_alias(actor_of(cast.owner), versions[1], "best")
    assert advanced(endpoint) == ("mv-1", "mv-2")
    services.roll_back(actor_of(cast.owner), "vision", endpoint.name)
    assert advanced(endpoint) == ("mv-1", None)
    registry.set_alias(actor_of(cast.owner), versions[0], "best")
    assert advanced(endpoint) == ("mv-1", None)
    registry.set_alias(actor_of(cast.owner), versions[1], "best")
    assert advanced(endpoint) == ("mv-1", "mv-2"), "it was moved there again"
    ModelAlias.objects.all().delete()
    assert advanced(endpoint) == ("mv-1", "mv-2")


def test_a_version_that_may_not_be_served_is_named_with_the_reason(
    cast: Cast, endpoint: Endpoint, versions: list[ModelVersion]
) -> None:
    ModelVersion.objects.filter(id="mv-2").update(state="copying")
    registry.set_alias(actor_of(cast.owner), versions[1], "best")
    assert advanced(endpoint) == ("mv-1", None)
    assert endpoint.verdict.startswith("best is version 2, which is not tried: ")
    assert "only a version that is ready can be served" in endpoint.verdict


def test_an_alias_that_is_not_there_or_beside_a_number_is_refused(
    cast: Cast, versions: list[ModelVersion]
) -> None:
    with pytest.raises(TrainmasterError, match="alias best of model bytelm"):
        services.create(actor_of(cast.owner), endpoint_mapping(alias="best"))
    with pytest.raises(TrainmasterError, match="follows one of them"):
        services.create(actor_of(cast.owner), endpoint_mapping(alias="best", version=1))


def test_an_endpoint_whose_replicas_fail_says_why(endpoint: Endpoint) -> None:
    advanced(endpoint)
    assert endpoint.reason == ""
    job = Job.objects.get()
    Job.objects.filter(id=job.id).update(
        attempt=3, reason="There is no module serve; restart 2 from the beginning"
    )
    advanced(endpoint)
    assert endpoint.reason == f"{job.name} failed: There is no module serve; restart 2 from the beginning"
