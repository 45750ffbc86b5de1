"""A job, and an agent's way of saving checkpoints of it into a store on disk."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from platform_core.distribution.content.manifest import to_json
from trainmaster.store import open_store
from trainmaster.store.copying import copy_in, source_url
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.checkpoints import services
from webapp.checkpoints.models import Checkpoint
from webapp.jobs import services as jobs
from webapp.jobs.models import Job

Save = Callable[..., Checkpoint]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        yield tmp_path


@pytest.fixture
def job(vision: Team, quota: Callable[..., object], owner: User) -> Job:
    quota(vision)
    mapping = {
        "name": "j", "team": "vision", "command": "train.py", "num_gpus": 1, "gpu_type": "cpu",
        "checkpoint": {"keep_last": 1},
    }  # fmt: skip
    return jobs.submit(actor_of(owner), mapping)[0]


@pytest.fixture
def save(store: Path, job: Job) -> Save:
    """What an agent does: the bytes into the store, then the word of it."""

    def save(step: int, content: bytes = b"", attempt: int = 1) -> Checkpoint:
        url, upload = f"file://{store}", f"{attempt}-{step}"
        files = [("state.pt", io.BytesIO(content or f"state {step}".encode()))]
        manifest = copy_in(open_store(url), "checkpoint", upload, files)
        return services.register(
            job_id=job.id, attempt=attempt, step=step, manifest_json=to_json(manifest),
            source_url=source_url(url, "checkpoint", upload), metrics={},
            saved_ms=attempt * 1000 + step, actor="node:n",
        )  # fmt: skip

    return save
