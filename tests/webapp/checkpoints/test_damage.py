"""A node finds that a checkpoint is not what was saved: nobody begins from it again."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, override_settings

from platform_core.checkpointing.restore import Chosen, choose
from platform_core.checkpointing.retention import Kept
from platform_core.distribution.content.manifest import to_json
from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.spec import SpecError
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import after_its_pause, say, tick
from trainmaster.store import open_store
from trainmaster.store.copying import copy_in, source_url
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import services
from webapp.checkpoints.models import Checkpoint
from webapp.events.models import Event
from webapp.jobs.models import Attempt, Job, Member
from webapp.registry import services as registry
from webapp.rpc.observed import Report, observe

pytestmark = pytest.mark.usefixtures("cluster")
WHY = "Could not fetch checkpoint to resume from man-1: state.pt (chunk 0) does not have the SHA-256 that it should"
Save = Callable[..., Checkpoint]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        yield tmp_path


def save(job: Job, step: int, attempt: int = 1, saved_ms: int = 0, content: bytes = b"") -> Checkpoint:
    upload = f"{job.id}/{attempt}-{step}"
    files = [("state.pt", io.BytesIO(content or f"state {step}".encode()))]
    manifest = copy_in(open_store(settings.STORE_URL), "checkpoint", upload, files)
    return services.register(
        job_id=job.id, attempt=attempt, step=step, manifest_json=to_json(manifest), metrics={},
        source_url=source_url(settings.STORE_URL, "checkpoint", upload), saved_ms=saved_ms, actor="node:n",
    )  # fmt: skip


@pytest.fixture
def job(submit: Callable[..., Job], store: Path) -> Job:
    """Its first attempt saved at steps 10, 20 and 30, on a node whose clock ran backwards, and failed."""
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    for step in (10, 20, 30):
        save(job, step, saved_ms=1_000 - step)
    say(job, MemberPhase.EXITED, 1)
    after_its_pause(job)
    return again(job)


def again(job: Job) -> Job:
    return Job.objects.get(id=job.id)


def cannot_restore(job: Job, why: str = WHY) -> None:
    """What the agent of its newest attempt says."""
    attempt = Attempt.objects.get(job=job, number=again(job).attempt)
    ended = session_pb2.AttemptObserved(
        attempt_id=attempt.id, phase=session_pb2.AttemptObserved.EXITED, exit_code=125, reason=why,
        end=session_pb2.AttemptObserved.LAUNCHER, uplink_drained=True, resume_damaged=True,
    )  # fmt: skip
    node = Member.objects.get(attempt=attempt).node_id
    observe([Report(node, session_pb2.Observed(attempts=[ended]), complete=False)])


def begun_from(job: Job) -> int | str:
    attempt = Attempt.objects.get(job=job, number=again(job).attempt)
    row = Checkpoint.objects.filter(id=attempt.resume_checkpoint).first()
    return row.step if row else attempt.resume_checkpoint


def test_each_attempt_begins_from_the_next_older_one_whatever_the_clocks_said(job: Job) -> None:
    assert begun_from(job) == 30
    cannot_restore(job)
    tick()
    assert begun_from(job) == 20
    cannot_restore(job)
    tick()
    assert begun_from(job) == 10
    assert again(job).restarts == 1, "only the script's own failure counts"


def test_it_is_what_the_core_chooses_from_the_same_checkpoints(job: Job) -> None:
    cannot_restore(job)
    rows = Checkpoint.objects.filter(job=job)
    chosen = choose(Kept(row.id, row.attempt, row.step, good=not row.damaged) for row in rows)
    assert isinstance(chosen, Chosen)
    assert chosen.id == again(job).latest_checkpoint


def test_when_none_is_left_it_has_failed_with_a_sentence(job: Job) -> None:
    for _ in range(3):
        cannot_restore(job)
        tick()
    assert again(job).state == "failed"
    assert again(job).reason.endswith("no other checkpoint of it is whole; clone it to begin again at step 0")


def test_said_twice_it_is_marked_once_and_told_once(job: Job) -> None:
    cannot_restore(job)
    cannot_restore(job)
    assert Checkpoint.objects.exclude(damaged="").count() == 1
    assert Event.objects.filter(kind="CheckpointDamaged", subject_id=job.id).count() == 1


def test_the_page_and_rest_show_it_with_its_reason_and_the_audit_log_who_found_it(
    job: Job, client: Client, owner: User
) -> None:
    cannot_restore(job)
    client.force_login(owner)
    page = client.get(f"/jobs/{job.id}/?tab=checkpoints").content.decode()
    assert "damaged" in page
    assert WHY in page
    assert page.count("Resume from step") == 2, "nobody is offered the damaged one"
    rows = client.get(f"/api/v1/training-jobs/{job.id}/checkpoints").json()["results"]
    assert [(row["step"], row["damaged"]) for row in rows] == [(30, WHY), (20, ""), (10, "")]
    told = Event.objects.get(kind="CheckpointDamaged")
    assert told.cause.startswith("checkpoint ckpt-")
    assert told.cause.endswith(f"at step 30 is damaged: {WHY}")
    assert told.actor.startswith("node:node-")


def test_nobody_resumes_from_it_and_no_model_is_made_of_it(
    job: Job, owner: User, submit: Callable[..., Job]
) -> None:
    cannot_restore(job)
    damaged = Checkpoint.objects.exclude(damaged="").get()
    with pytest.raises(SpecError, match="has no checkpoint"):
        submit(resume_from=damaged.id)
    with pytest.raises(TrainmasterError, match="it is damaged"):
        registry.register(actor_of(owner), "vision", "bytelm", checkpoint=damaged.id)


def test_the_job_that_saved_it_is_told_when_another_could_not_begin_from_it(
    job: Job, submit: Callable[..., Job]
) -> None:
    used = Checkpoint.objects.get(job=job, step=20)
    other = submit(num_gpus=1, resume_from=used.id)
    tick()
    assert begun_from(other) == 20
    cannot_restore(other)
    assert again(other).state == "failed", (
        "another checkpoint than it was submitted with is not chosen for it"
    )
    assert Event.objects.filter(kind="CheckpointDamaged", subject_id=job.id).count() == 1
    assert begun_from(job) == 30


def test_its_own_damaged_it_falls_back_on_the_one_it_was_submitted_with(
    job: Job, submit: Callable[..., Job]
) -> None:
    other = submit(num_gpus=1, resume_from=Checkpoint.objects.get(job=job, step=10).id)
    tick()
    say(other, MemberPhase.RUNNING)
    save(other, 5, content=b"its own")
    say(other, MemberPhase.EXITED, 1)
    after_its_pause(other)
    assert begun_from(other) == 5
    cannot_restore(other)
    tick()
    assert begun_from(other) == 10


def test_the_same_bytes_saved_again_make_it_whole(job: Job, store: Path) -> None:
    damaged = Checkpoint.objects.get(job=job, step=30)
    cannot_restore(job)
    tick()
    anew = save(job, 30, attempt=3)
    assert anew.manifest_id == damaged.manifest_id
    assert artifacts.reference(anew.manifest_id).source_url.endswith("/3-30")
    assert not Checkpoint.objects.exclude(damaged="").exists()
    assert not (store / "checkpoint" / job.id / "1-30" / "state.pt").exists()


def test_a_damaged_one_takes_no_place_from_a_good_one(job: Job) -> None:
    cannot_restore(job)
    services.retain()
    assert list(Checkpoint.objects.filter(deleted_ms=None).order_by("step").values_list("step", flat=True)) == [
        10, 20,
    ]  # fmt: skip
