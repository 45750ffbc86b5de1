"""A model with a gate, a suite that it names, and words for what the job of an evaluation does."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from platform_core.distribution.content.manifest import to_json
from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import cluster, say, tick
from trainmaster.evaluation import RESULTS
from trainmaster.store import open_store
from trainmaster.store.copying import copy_in, source_url
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.datasets import services as datasets
from webapp.evaluations import coordination, services
from webapp.evaluations.models import EvaluationRun, Suite
from webapp.experiments import services as experiments
from webapp.jobs import services as jobs
from webapp.jobs.models import Job, Member
from webapp.registry import catalogue, gates
from webapp.registry import services as registry
from webapp.registry.models import Model, ModelVersion

__all__ = ["cluster"]

TRAINING, HELD_OUT = {"train.bin": b"train"}, {"test.bin": b"test", "empty": b""}
POLICY = {
    "thresholds": [{"suite": "held-out", "metric": "accuracy", "bound": 0.9}],
    "measured_by": "server",
}


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path) -> Iterator[None]:
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        yield


def uploaded(user: User, kind: str, files: Mapping[str, bytes]) -> str:
    actor = actor_of(user)
    upload = artifacts.start_upload(actor, "vision", kind, kind)
    for path, content in files.items():
        artifacts.receive_file(actor, upload.id, path, io.BytesIO(content))
    return artifacts.complete_upload(actor, upload.id).id


def snapshot(user: User, name: str, files: Mapping[str, bytes], purpose: str) -> str:
    manifest = uploaded(user, "dataset", files)
    return datasets.add_snapshot(actor_of(user), "vision", name, manifest, purpose).id


@pytest.fixture
def held_out(cast: Cast) -> str:
    return snapshot(cast.lead, "held-out", HELD_OUT, "evaluation")


def suite_file(dataset: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "held-out", "team": "vision", "command": "evaluate.py", "gpu_type": "cpu", "dataset": dataset,
        "metrics": {"accuracy": "higher"}, **changes,
    }  # fmt: skip


@pytest.fixture
def suite(cast: Cast, cluster: Any, held_out: str) -> Suite:
    return services.publish(actor_of(cast.lead), suite_file(held_out))[0]


@pytest.fixture
def model(cast: Cast, suite: Suite) -> Model:
    row = catalogue.create_model(actor_of(cast.owner), "vision", "bytelm")
    gates.set_policy(actor_of(cast.lead), row, POLICY)
    return Model.objects.get(pk=row.pk)


@pytest.fixture
def candidate(cast: Cast, model: Model) -> Callable[..., ModelVersion]:
    """alice registers weights."""

    def register(content: bytes = b"weights", job: str = "") -> ModelVersion:
        manifest = uploaded(cast.owner, "model", {"weights.bin": content})
        version = registry.register(actor_of(cast.owner), "vision", "bytelm", manifest=manifest)
        if job:
            ModelVersion.objects.filter(pk=version.pk).update(job=job)
        return ModelVersion.objects.select_related("model", "created_by").get(pk=version.pk)

    return register


def round_() -> None:
    assert coordination.coordinate()


def run_of(version: ModelVersion) -> EvaluationRun:
    """The newest."""
    rows = EvaluationRun.objects.filter(version=version.pk).select_related("job__user", "suite")
    return rows.order_by("-pk")[0]


def job_of(version: ModelVersion) -> Job:
    round_()
    job = run_of(version).job
    assert job is not None
    tick()
    return Job.objects.get(pk=job.pk)


def hands_over(job: Job, name: str, text: str, attempt: int = 1) -> None:
    """What the agent does with a file that the script of the job gave it."""
    store = settings.STORE_URL
    manifest = copy_in(
        open_store(store), "artifact", f"{job.id}/{attempt}-{name}", [(name, io.BytesIO(text.encode()))]
    )
    url = source_url(store, "artifact", f"{job.id}/{attempt}-{name}")
    experiments.add_artifact(job.id, name, manifest_json=to_json(manifest), source_url=url)


def lines(right: float, count: int = 100) -> list[str]:
    """So many samples, of which this part is right."""
    return [
        json.dumps(
            {"id": n, "metrics": {"accuracy": float(n < right * count)}, "slices": {"half": str(n % 2)}}
        )
        for n in range(count)
    ]


def ends(job: Job, exit_code: int = 0) -> None:
    """Its ranks ended, and the agents have sent all that they had."""
    say(job, MemberPhase.RUNNING)
    say(job, MemberPhase.EXITED, exit_code)
    members = Member.objects.filter(attempt__job=job)
    jobs.mark_drained({(member.attempt_id, member.node_id) for member in members})


def measured(version: ModelVersion, right: float = 0.95) -> Job:
    """The whole life of the job of its evaluation."""
    job = job_of(version)
    hands_over(job, RESULTS, "\n".join(lines(right)))
    ends(job)
    round_()
    return job
