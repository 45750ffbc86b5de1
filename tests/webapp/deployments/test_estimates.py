"""An estimate before the start: an interval, with its source, that small models do not move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from webapp.accounts.models import User
from webapp.artifacts.models import Manifest
from webapp.deployments.models import Deployment
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion

ASKED = "/api/v1/deployments/plan?model_id=vision/bytelm&version=1"


@pytest.fixture
def passed(version: ModelVersion, owner: User) -> Callable[[int, int], None]:
    """A deployment of so many bytes was complete after so many milliseconds."""

    def passed(total_bytes: int, took_ms: int) -> None:
        number = Deployment.objects.count()
        manifest = Manifest.objects.create(
            id=f"man-{number}",
            kind="model",
            source_url="",
            total_bytes=total_bytes,
            files=1,
            document={},
            created_ms=1,
        )
        one = ModelVersion.objects.create(
            id=f"mv-{number}", model=version.model, version=100 + number, source="", manifest=manifest, state="ready",
            created_by=owner, created_ms=1,
        )  # fmt: skip
        Deployment.objects.create(
            id=f"dep-{number}", team_id="vision", user=owner, model_version=one, source_url="", state="complete",
            estimated_ms=1, created_ms=1, started_ms=1_000, finished_ms=1_000 + took_ms,
        )  # fmt: skip

    return passed


def test_small_models_do_not_make_a_large_one_take_long(
    api: Callable[..., APIClient], owner: User, nodes: list[Node], passed: Callable[[int, int], None]
) -> None:
    before = api(owner).get(ASKED).json()
    for _ in range(3):
        passed(3_000, 46)
    after = api(owner).get(ASKED).json()
    assert (after["rate"], after["rate_basis"], after["measured_on"]) == (
        before["rate"],
        "configured_link",
        0,
    )
    assert after["likely_seconds"] - before["likely_seconds"] == pytest.approx(0.046)


def test_a_long_deployment_is_what_it_is_measured_on(
    api: Callable[..., APIClient],
    owner: User,
    nodes: list[Node],
    passed: Callable[[int, int], None],
    settings: Any,
) -> None:
    settings.NETWORK_BYTES_PER_SECOND = 1_250_000_000
    passed(100 * 10**9, 200_000)
    for _ in range(19):
        passed(3_000, 46)
    told = api(owner).get(ASKED).json()
    assert (told["rate"], told["rate_basis"], told["measured_on"]) == (500_000_000, "measured", 1)
    assert 0 < told["low_seconds"] <= told["likely_seconds"] <= told["high_seconds"]
    made = (
        api(owner)
        .post("/api/v1/deployments", {"model_id": "vision/bytelm", "version": 1}, format="json")
        .json()
    )
    assert made["estimate_basis"] == "measured on 1 deployment"
    assert made["estimated_low_seconds"] <= made["estimated_time_seconds"] <= made["estimated_high_seconds"]


def test_a_configured_link_bounds_what_was_measured(
    api: Callable[..., APIClient],
    owner: User,
    nodes: list[Node],
    passed: Callable[[int, int], None],
    settings: Any,
) -> None:
    settings.NETWORK_BYTES_PER_SECOND = 1_000_000
    passed(100 * 10**9, 200_000)
    assert api(owner).get(ASKED).json()["rate"] == 1_000_000
