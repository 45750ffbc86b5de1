"""An endpoint of two versions of a model, of which the first is served."""

import pytest

from tests.webapp.conftest import BOOTSTRAP, Cast, description
from tests.webapp.world import endpoint_mapping
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.nodes import services as clusters
from webapp.quotas.models import Quota
from webapp.registry.models import Model, ModelVersion
from webapp.serving import coordination, services
from webapp.serving.models import Endpoint


@pytest.fixture
def versions(cast: Cast) -> list[ModelVersion]:
    Quota.objects.create(team_id="vision", gpu_type="cpu", guaranteed=4, maximum=8)
    clusters.join(BOOTSTRAP, description())
    manifest = Manifest.objects.create(
        id="man-1", kind="model", total_bytes=1, files=1, document={"files": []}, created_ms=1
    )
    model = Model.objects.create(team_id="vision", name="bytelm", created_ms=1)
    return [
        ModelVersion.objects.create(
            id=f"mv-{number}", model=model, version=number, source="", manifest=manifest, state="ready",
            created_by=cast.owner, created_ms=1,
        )
        for number in (1, 2)
    ]  # fmt: skip


@pytest.fixture
def writer(cast: Cast, versions: list[ModelVersion]) -> Endpoint:
    row = services.create(actor_of(cast.owner), endpoint_mapping(version=1, min_replicas=2, max_replicas=2))
    coordination.advance(row.id)
    return row
