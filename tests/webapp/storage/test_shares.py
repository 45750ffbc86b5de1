"""What lies in the store divides by project, owner and age, as the things say that were made with it."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from platform_core.storage.holdings import Age, Split
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.datasets import services as datasets
from webapp.experiments import services as experiments
from webapp.experiments.models import RunArtifact, RunFile
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, LogChunk
from webapp.quotas.models import Quota
from webapp.registry import services as registry
from webapp.storage import queries, services
from webapp.storage.models import StoredShare


@pytest.fixture(autouse=True)
def store(cast: Cast, settings: Any, tmp_path: Path) -> None:
    settings.STORE_URL = (tmp_path / "hot").as_uri()
    Quota.objects.create(team_id="vision", gpu_type="cpu", guaranteed=4, maximum=8)


def upload(person: User, team: str, kind: str, data: bytes) -> str:
    begun = artifacts.start_upload(actor_of(person), team, kind, "files")
    artifacts.receive_file(actor_of(person), begun.id, "a.bin", io.BytesIO(data))
    return artifacts.complete_upload(actor_of(person), begun.id).id


def submit(person: User, project: str = "", **fields: Any) -> Job:
    job, _ = jobs.submit(actor_of(person), job_mapping(project=project, **fields))
    return job


def save_checkpoint(job: Job, data: bytes) -> str:
    manifest = upload(job.user, job.team_id, "model", data)
    Manifest.objects.filter(id=manifest).update(kind="checkpoint")
    step = Checkpoint.objects.count()
    Checkpoint.objects.create(
        id=f"ckpt-{step:016}", job=job, attempt=1, step=step, manifest_id=manifest, saved_ms=step
    )
    return manifest


def divided(by: Split, *teams: str) -> dict[str, int]:
    services.account()
    return {share.name: share.bytes for share in queries.shares(teams or None, by)}


def of_kind(kind: str) -> set[tuple[str, str, str, int]]:
    services.account()
    rows = StoredShare.objects.filter(kind=kind)
    return set(rows.values_list("team", "project", "owner", "bytes"))


def test_a_checkpoint_is_of_the_project_and_the_person_of_its_job(cast: Cast) -> None:
    save_checkpoint(submit(cast.member, "pose"), b"weights")
    save_checkpoint(submit(cast.owner), b"others")
    assert of_kind("checkpoint") == {("vision", "pose", "bob", 7), ("vision", "", "alice", 6)}


def test_code_is_of_who_sent_it_last_and_of_no_project(cast: Cast) -> None:
    code = upload(cast.owner, "vision", "code", b"print(1)")
    submit(cast.owner, "faces", code=code, command="python a.bin")
    assert of_kind("code") == {("vision", "", "alice", 8)}
    upload(cast.member, "vision", "code", b"print(1)")
    assert of_kind("code") == {("vision", "", "bob", 8)}


def test_a_dataset_is_of_its_owner_and_of_the_only_project_that_may_use_it(cast: Cast) -> None:
    alice = actor_of(cast.owner)
    data = upload(cast.owner, "vision", "dataset", b"images")
    datasets.add_snapshot(alice, "vision", "faces", data, "train", ["pose"])
    assert of_kind("dataset") == {("vision", "pose", "alice", 6)}
    datasets.describe(alice, "vision", "faces", owner="bob")
    assert of_kind("dataset") == {("vision", "pose", "bob", 6)}
    datasets.add_snapshot(alice, "vision", "faces", data, "train", ["pose", "faces"])
    assert of_kind("dataset") == {("vision", "", "bob", 6)}


def test_a_model_is_of_who_registered_it_and_of_the_project_it_came_from(cast: Cast) -> None:
    manifest = upload(cast.owner, "vision", "model", b"model")
    version = registry.register(actor_of(cast.member), "vision", "net", manifest=manifest)
    type(version).objects.filter(id=version.id).update(job=submit(cast.owner, "pose"))
    assert of_kind("model") == {("vision", "pose", "bob", 5)}


def test_what_a_run_logged_and_a_log_are_of_the_project_and_the_person_of_the_job(cast: Cast) -> None:
    job = submit(cast.member, "pose")
    outside = experiments.create_run(
        actor_of(cast.owner), experiments.create_experiment(actor_of(cast.owner), "vision", "laptop")
    )
    for run, path in ((job.run, "a"), (outside, "b")):
        RunFile.objects.create(run=run, path=path, size=3, sha256="0" * 64, created_ms=now_ms())
    output = upload(cast.owner, "vision", "model", b"outputs")
    Manifest.objects.filter(id=output).update(kind="artifact")
    RunArtifact.objects.create(run=job.run, name="outputs", manifest_id=output, created_ms=1)
    attempt = Attempt.objects.create(
        id="att-0", job=job, number=1, placed_ms=1, master_address="a", master_port=1, ended_ms=1
    )
    LogChunk.objects.create(
        attempt=attempt, rank=0, offset=0, next_offset=9, text="", at_ms=now_ms(), stored=True
    )
    assert of_kind("run files") == {("vision", "pose", "bob", 3), ("vision", "", "alice", 3)}
    assert of_kind("artifact") == {("vision", "pose", "bob", 7)}
    assert of_kind("logs") == {("vision", "pose", "bob", 9)}


def test_what_two_teams_sent_counts_for_each_and_for_the_person_of_each(cast: Cast) -> None:
    upload(cast.owner, "vision", "model", b"same")
    upload(cast.outsider, "nlp", "model", b"same")
    assert of_kind("model") == {("vision", "", "alice", 4), ("nlp", "", "carol", 4)}
    assert divided(Split.OWNER, "nlp") == {"carol": 4}


def test_an_upload_that_is_under_way_is_of_its_person(cast: Cast) -> None:
    begun = artifacts.start_upload(actor_of(cast.member), "vision", "dataset", "half")
    artifacts.receive_file(actor_of(cast.member), begun.id, "a.bin", io.BytesIO(b"12"))
    assert of_kind("upload") == {("vision", "", "bob", 2)}


@pytest.mark.parametrize(
    ("created", "used", "age"),
    [
        (6, None, Age.WEEK),
        (8, None, Age.MONTH),
        (31, None, Age.QUARTER),
        (91, None, Age.YEAR),
        (366, None, Age.OLDER),
        (366, 8, Age.MONTH),
    ],
)
def test_age_is_since_the_last_use_and_else_since_the_creation(
    cast: Cast, created: int, used: int | None, age: Age
) -> None:
    manifest = upload(cast.owner, "vision", "model", b"model")
    used_ms = 0 if used is None else now_ms() - used * DAY_MS
    Manifest.objects.filter(id=manifest).update(created_ms=now_ms() - created * DAY_MS, used_ms=used_ms)
    assert divided(Split.AGE) == {age: 5}


def test_every_split_adds_up_to_what_the_team_has_and_the_cold_part_too(
    cast: Cast, settings: Any, tmp_path: Path
) -> None:
    settings.COLD_STORE_URL = (tmp_path / "cold").as_uri()
    cold = upload(cast.owner, "vision", "dataset", b"cold")
    Manifest.objects.filter(id=cold).update(source_url=f"{settings.COLD_STORE_URL}/dataset/{cold}")
    save_checkpoint(submit(cast.member, "pose"), b"weights")
    services.account()
    (vision,) = queries.teams(["vision"])
    for by in Split:
        shares = queries.shares(["vision"], by)
        assert sum(share.bytes for share in shares) == vision.bytes == 11, by
        assert sum(share.cold_bytes for share in shares) == 4, by
        assert [share.bytes for share in shares] == sorted((share.bytes for share in shares), reverse=True)


def test_what_a_team_has_no_more_is_in_no_share(cast: Cast) -> None:
    gone = upload(cast.owner, "vision", "model", b"model")
    assert divided(Split.OWNER) == {"alice": 5}
    Manifest.objects.filter(id=gone).update(source_url="")
    assert divided(Split.OWNER) == {}


def test_a_round_asks_the_database_as_often_whatever_the_number_of_jobs(cast: Cast) -> None:
    def queries_of_a_round() -> int:
        with CaptureQueriesContext(connection) as captured:
            services.account()
        return len(captured)

    save_checkpoint(submit(cast.owner, "pose"), b"first")
    before = queries_of_a_round()
    for number in range(5):
        save_checkpoint(submit(cast.member, f"project {number}"), b"more%d" % number)
    assert queries_of_a_round() == before


def test_members_see_the_shares_of_their_teams_alone(
    cast: Cast, browser: Callable[[User], Client], api: Callable[..., APIClient]
) -> None:
    save_checkpoint(submit(cast.member, "pose"), b"weights")
    upload(cast.outsider, "nlp", "model", b"model")
    services.account()

    def told(person: User, team: str, query: str) -> list[tuple[str, str, int]]:
        found = api(person, team).get(f"/api/v1/storage/shares{query}").json()["results"]
        return [(one["team"], one["name"], one["bytes"]) for one in found]

    assert told(cast.owner, "vision", "") == [("vision", "pose", 7)]
    assert told(cast.owner, "vision", "?by=owner") == [("", "bob", 7)]
    assert told(cast.owner, "vision", "?by=owner&team=nlp") == []
    assert told(cast.outsider, "nlp", "?by=kind") == [("", "model", 5)]
    refused = api(cast.owner).get("/api/v1/storage/shares?by=colour")
    assert (refused.status_code, "'colour' is none of project, owner" in refused.json()["detail"]) == (
        400,
        True,
    )
    page = browser(cast.admin).get("/storage/?by=team").content.decode()
    assert "?by=project&amp;team=nlp#shares" in page
    page = browser(cast.owner).get("/storage/?by=owner&team=nlp").content.decode()
    assert "Nothing of nlp has been accounted yet." in page
    assert "carol" not in page


def test_the_page_keeps_the_split_in_its_address_and_begins_with_projects(
    cast: Cast, browser: Callable[[User], Client], settings: Any
) -> None:
    settings.STORAGE_PRICE = 2**40
    save_checkpoint(submit(cast.member, "pose"), b"weights")
    upload(cast.owner, "vision", "model", b"m")
    services.account()
    client = browser(cast.owner)
    for address in ("/storage/", "/storage/?by=nonsense"):
        page = client.get(address).content.decode()
        assert '<a href="?by=project#shares" aria-current="true">Project</a>' in page
        assert "pose" in page
        assert "no project" in page
    page = client.get("/storage/?by=owner").content.decode()
    assert '<a href="?by=owner#shares" aria-current="true">Owner</a>' in page
    assert page.index("bob") < page.rindex("88 %")
    assert "$7.00 a month" in page
