"""A version that has not passed its gate is refused at each door by which people and programs come: pages, REST, CLI.

Those of MLflow are in tests/webapp/mlflow/test_models.py, and what a retraining cycle does in tests/webapp/retraining.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast, make_cast, make_teams
from tests.webapp.test_command_line_roles import As, run_as
from tests.webapp.world import World, build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments.models import Deployment
from webapp.registry import gates, queries, services
from webapp.registry.models import ModelVersion
from webapp.serving import services as serving
from webapp.serving.models import Endpoint

__all__ = ["run_as"]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


WHY = "held-out has not evaluated this version"
RULE = {"suite": "held-out", "metric": "accuracy", "bound": 0.9}
SERVED = {"name": "gated", "team": "vision", "model": "bytelm", "gpu_type": "cpu", "version": 2}
CANARY = {"version": "2", "share_percent": "10", "watch_minutes": "1", "min_requests": "10", "automatic": "1"}


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def endpoint(world: World) -> str:
    """One that watches no canary, of the version that was there before the gate."""
    Endpoint.objects.filter(id=world.endpoint_id).update(canary=None, canary_policy={}, canary_since_ms=None)
    return world.endpoint


@pytest.fixture
def unproven(cast: Cast, world: World, endpoint: str) -> ModelVersion:
    """The second version of the model, whose gate wants an evaluation."""
    first = queries.version(world.model_version)
    assert first is not None
    services.register(actor_of(cast.owner), "vision", first.model.name, checkpoint=world.checkpoint)
    gates.set_policy(actor_of(cast.lead), first.model, {"thresholds": [RULE]})
    return queries.numbered(first.model, 2)


@pytest.fixture(autouse=True)
def nothing_came_through(unproven: ModelVersion) -> Any:
    yield
    assert queries.numbered(unproven.model, 2).stage in ("", "none", "candidate")
    assert not Deployment.objects.filter(model_version=unproven).exists()
    assert not Endpoint.objects.filter(stable=unproven).exists()
    assert not Endpoint.objects.filter(canary=unproven).exists()


@pytest.mark.parametrize("door", ["stage", "deployment", "endpoint", "canary"])
def test_over_rest(
    cast: Cast,
    world: World,
    endpoint: str,
    unproven: ModelVersion,
    api: Callable[[User], APIClient],
    door: str,
) -> None:
    name = unproven.model.name
    deployment = {"model_id": f"vision/{name}", "version": 2, "target_workers": [world.node]}
    method, path, body = {
        "stage": ("put", f"models/vision/{name}/versions/2/stage", {"stage": "staging"}),
        "deployment": ("post", "deployments", deployment),
        "endpoint": ("post", "endpoints", SERVED | {"model": name}),
        "canary": ("put", f"endpoints/vision/{endpoint}/version", {"version": 2}),
    }[door]
    answer = getattr(api(cast.lead), method)(f"/api/v1/{path}", body, format="json")
    assert answer.status_code == 409
    assert WHY in answer.content.decode()


@pytest.mark.parametrize("door", ["stage", "deployment", "endpoint", "canary"])
def test_on_the_pages(
    cast: Cast,
    world: World,
    endpoint: str,
    unproven: ModelVersion,
    browser: Callable[[User], Client],
    door: str,
) -> None:
    name = unproven.model.name
    deployment = {"model_version": unproven.id, "targets": [world.node], "strategy": "auto"}
    created = {"name": "gated", "version": "2", "gpu_type": "cpu"}
    path, form = {
        "stage": (f"/models/vision/{name}/2/stage/", {"stage": "staging"}),
        "deployment": ("/deployments/create/", deployment),
        "endpoint": ("/serving/create/", created | {"model": f"vision/{name}"}),
        "canary": (f"/serving/vision/{endpoint}/version/", CANARY),
    }[door]  # fmt: skip
    answer = browser(cast.lead).post(path, form, follow=True)
    assert WHY in answer.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("door", ["stage", "deployment", "endpoint", "canary"])
def test_on_the_command_line(
    cast: Cast, world: World, endpoint: str, unproven: ModelVersion, run_as: As, door: str
) -> None:
    name = unproven.model.name
    words = {
        "stage": ("gate", "stage", f"{name}:2", "staging"),
        "deployment": ("deploy", name, "2"),
        "endpoint": ("endpoints", "create", "gated", name, "--version", "2"),
        "canary": ("endpoints", "change", endpoint, "2"),
    }[door]
    assert WHY in " ".join(run_as(cast.lead, *words, code=1).output.split())


def test_an_admin_is_refused_too_unless_a_reason_is_given(cast: Cast, unproven: ModelVersion) -> None:
    admin = actor_of(cast.admin)
    with pytest.raises(Exception, match=WHY):
        services.set_stage(admin, unproven, "staging")
    with pytest.raises(Exception, match=WHY):
        serving.create(admin, SERVED | {"model": unproven.model.name})
