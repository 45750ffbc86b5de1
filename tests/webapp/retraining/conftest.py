"""A model in production behind a gate, its endpoint, newer data, and words for what happens to a cycle."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import Cast
from tests.webapp.evaluations.conftest import (
    candidate,
    cluster,
    ends,
    held_out,
    measured,
    model,
    snapshot,
    suite,
    uploaded,
)
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.base.identity import new_id, now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import Model, ModelVersion
from webapp.retraining import coordination, services
from webapp.retraining.models import Cycle, Policy
from webapp.serving import services as serving
from webapp.serving.models import Endpoint

__all__ = ["candidate", "cluster", "held_out", "model", "suite"]

DRIFTED = {"feature": "input.age", "test": "psi", "value": 2.0, "limit": 0.1, "reference": 500, "window": 500}


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path) -> Iterator[None]:
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        yield


@dataclass
class Loop:
    cast: Cast
    model: Model
    endpoint: Endpoint
    training: str  # snapshot of the version in production
    newer: str
    first: ModelVersion  # in production

    def set(self, **fields: Any) -> Policy:
        given = {
            "endpoint": "mlp", "drift": True, "for_minutes": 0, "approve_canary": False, "min_requests": 0,
            "watch_minutes": 0, **fields,
        }  # fmt: skip
        return services.set_policy(actor_of(self.cast.lead), self.model, given)

    def drifts(self, *, moved: bool = True) -> None:
        found = {
            "at_ms": now_ms(),
            "reference": 500,
            "window": 500,
            "findings": [{**DRIFTED, "moved": moved}],
        }
        Endpoint.objects.filter(pk=self.endpoint.pk).update(drift=found)

    def round(self) -> None:
        assert coordination.coordinate()

    def cycle(self) -> Cycle:
        """The newest."""
        rows = Cycle.objects.select_related("job__user", "version", "endpoint", "model", "author")
        return rows.order_by("-began_ms", "-id")[0]

    def job(self) -> Job:
        job = self.cycle().job
        assert job is not None
        return job

    def trains(self, content: bytes = b"new weights") -> None:
        """The whole life of the job of the cycle."""
        trained(self.cast, self.job(), content)
        self.round()

    def evaluates(self, right: float = 0.95) -> None:
        version = self.cycle().version
        assert version is not None
        nodes_live()
        measured(version, right)
        self.round()

    def as_far_as_the_canary(self) -> None:
        self.drifts()
        self.round()
        self.trains()
        self.evaluates()
        self.round()


def nodes_live() -> None:
    """The agents go on sending heartbeats, however long a test takes."""
    for node_id in Node.objects.values_list("id", flat=True):
        liveness.saw(node_id, now_ms())


def trained(cast: Cast, job: Job, content: bytes) -> Checkpoint:
    nodes_live()
    tick()
    say(job, MemberPhase.RUNNING)
    manifest = Manifest.objects.get(id=uploaded(cast.owner, "model", {"weights.bin": content}))
    checkpoint = Checkpoint.objects.create(
        id=new_id("ckpt"), job=job, attempt=1, step=50, manifest=manifest, saved_ms=now_ms()
    )
    ends(job)
    return checkpoint


@pytest.fixture
def loop(cast: Cast, model: Model, candidate: Callable[..., ModelVersion]) -> Loop:
    """alice trained the version in production; since then there is newer data."""
    alice = actor_of(cast.owner)
    training = snapshot(cast.owner, "visits", {"train.bin": b"train"}, "training")
    job, _ = jobs.submit(
        alice,
        {
            "name": "visits", "team": "vision", "command": "train.py --rate 0.1", "num_gpus": 2, "gpu_type": "cpu",
            "dataset": training, "purpose": "training", "max_runtime_hours": 1,
        },
    )  # fmt: skip
    checkpoint = trained(cast, job, b"first weights")
    version = registry.register(alice, "vision", "bytelm", checkpoint=checkpoint.id)
    measured(version)
    registry.set_stage(alice, version, "production")
    endpoint = serving.create(
        alice, {"name": "mlp", "team": "vision", "model": "bytelm", "gpu_type": "cpu", "sample_percent": 10}
    )
    newer = snapshot(cast.owner, "visits", {"train.bin": b"train", "more.bin": b"more"}, "training")
    return Loop(cast, model, endpoint, training, newer, version)
