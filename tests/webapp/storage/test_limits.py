"""Limits by team and kind refuse with numbers, a budget is told when it is exceeded, and old things have an age."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.queries import actor_of
from webapp.alerts import readings
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.experiments import space
from webapp.jobs import logs
from webapp.jobs.models import Attempt, Job, LogChunk
from webapp.storage import queries, retention, services
from webapp.storage.models import Leftover


@pytest.fixture
def world(cast: Cast, settings: Any, tmp_path: Path) -> World:
    settings.STORE_URL = tmp_path.as_uri()
    return build(cast)


def upload(cast: Cast, text: bytes, kind: str = "dataset") -> None:
    begun = artifact_services.start_upload(actor_of(cast.owner), "vision", kind, "more")
    artifact_services.receive_file(actor_of(cast.owner), begun.id, "a.bin", io.BytesIO(text))


def limit(cast: Cast, kind: str, size: int | None) -> None:
    artifact_services.set_limit(actor_of(cast.admin), "vision", kind, size)


def test_an_upload_beyond_the_limit_of_its_kind_is_refused_with_the_numbers(cast: Cast, world: World) -> None:
    used = artifacts.uploaded_of("vision", "dataset")
    limit(cast, "dataset", used + 10)
    upload(cast, b"12345678")
    with pytest.raises(
        TrainmasterError, match=rf"{used + 8} B of the {used + 10} B .* for dataset"
    ) as caught:
        upload(cast, b"12345678")
    assert caught.value.code == "too_large"
    upload(cast, b"12345678", "model")
    limit(cast, "dataset", None)
    upload(cast, b"12345678")


def test_jobs_are_refused_while_the_team_has_too_many_checkpoints(cast: Cast, world: World) -> None:
    assert artifacts.why_no_new_checkpoints("vision") == ""
    Manifest.objects.filter(id=world.dataset_manifest).update(kind="checkpoint")
    limit(cast, "checkpoint", 3)
    assert "Team vision has 7 B of checkpoints, and its storage limit for them is 3 B" in (
        artifacts.why_no_new_checkpoints("vision")
    )


def test_files_of_runs_have_a_limit_of_their_own(cast: Cast, world: World, settings: Any) -> None:
    limit(cast, "run files", 2**21)
    assert space.limit("vision") == 2**21
    assert "2 MiB that its storage limit for run files allows" in space.full("vision", "x.bin").sentence
    settings.TEAM_UPLOAD_LIMIT_BYTES = 2**20
    assert space.limit("vision") == 2**20


def test_an_unknown_kind_or_team_is_refused(cast: Cast, world: World) -> None:
    with pytest.raises(TrainmasterError, match="'video' is not one of"):
        limit(cast, "video", 1)
    with pytest.raises(TrainmasterError, match="team nobody"):
        artifact_services.set_limit(actor_of(cast.admin), "nobody", "code", 1)


def test_a_budget_that_is_exceeded_is_told(cast: Cast, world: World, settings: Any) -> None:
    settings.STORAGE_PRICE = 1_000_000
    services.account()
    services.set_budget(actor_of(cast.admin), "vision", 1)
    (vision,) = queries.teams(["vision"])
    assert vision.is_over_budget
    (reading,) = readings.READS["team.storage_cost"](now_ms())
    assert (reading.team, (reading.value or 0) > 100) == ("vision", True)
    services.set_budget(actor_of(cast.admin), "vision", None)
    assert list(readings.READS["team.storage_cost"](now_ms())) == []
    assert Event.objects.filter(kind="StorageBudgetChanged").count() == 2


def test_the_page_sets_limits_and_shows_them(cast: Cast, world: World, client: Client) -> None:
    services.account()
    client.force_login(cast.admin)
    for body in ({"kind": "dataset", "size": "1KiB"}, {"kind": "budget", "size": "12.5"}):
        client.post("/storage/limits/", {"team": "vision", **body})
    page = client.get("/storage/").content.decode()
    assert "of at most 1 KiB" in page
    assert "budget $12.50" in page
    assert "TRAINMASTER_LOG_RETENTION_DAYS" in page
    for body in ({"kind": "dataset", "size": "much"}, {"kind": "budget", "size": "-1"}):
        answer = client.post("/storage/limits/", {"team": "vision", **body}, follow=True).content.decode()
        assert "is not a" in answer
    client.post("/storage/limits/", {"team": "vision", "kind": "dataset", "size": ""})
    assert artifacts.storage_limits() == {}
    client.force_login(cast.lead)
    assert "Set limit" not in client.get("/storage/").content.decode()


def test_limits_and_retention_over_rest(cast: Cast, world: World) -> None:
    services.account()
    client = APIClient()
    client.force_authenticate(cast.admin)
    asked = {"team": "vision", "kind": "dataset", "bytes": 5}
    assert client.put("/api/v1/storage/limits", asked, format="json").json() == asked
    budget = {"team": "vision", "month_micro_dollars": 7}
    assert client.put("/api/v1/storage/budgets", budget, format="json").json() == budget
    (vision,) = client.get("/api/v1/storage").json()["results"]
    assert vision["budget"] == 7
    assert {part["kind"]: part["limit"] for part in vision["parts"]}["dataset"] == 5
    kept = client.get("/api/v1/storage/retention").json()["results"]
    assert {row["setting"]: row["days"] for row in kept}["TRAINMASTER_LOG_RETENTION_DAYS"] == 0


def test_logs_of_jobs_that_ended_long_ago_go_with_their_objects(
    cast: Cast, world: World, settings: Any, tmp_path: Path
) -> None:
    attempt = Attempt.objects.filter(job=world.job).first() or Attempt.objects.create(
        id="att-old", job_id=world.job, number=1, placed_ms=1, master_port=1
    )
    logs.ingest(attempt, 0, 0, 6, "hello\n", 1)
    Job.objects.filter(id=world.job).update(state="succeeded", finished_ms=now_ms() - 10 * DAY_MS)
    Attempt.objects.filter(job=world.job).update(ended_ms=1)
    chunk = LogChunk.objects.filter(attempt=attempt, offset=0, rank=0).get()
    logs._store([chunk])
    assert len(list(tmp_path.rglob("*.log"))) == 1
    retention.retain()
    assert LogChunk.objects.filter(attempt=attempt).exists()
    settings.LOG_RETENTION_DAYS = 9
    assert next(row.due for row in retention.policies() if row.what.startswith("logs")) == 1
    retention.retain()
    assert not LogChunk.objects.filter(attempt=attempt).exists()
    assert not list(tmp_path.rglob("*.log"))
    assert Event.objects.filter(kind="LogsDeleted", subject_id=world.job).exists()


def test_events_go_after_their_age_and_it_is_noted(cast: Cast, world: World, settings: Any) -> None:
    Event.objects.update(at_ms=now_ms())
    old = Event.objects.order_by("id").first()
    assert old is not None
    Event.objects.filter(id=old.id).update(at_ms=now_ms() - 3 * DAY_MS)
    settings.EVENT_RETENTION_DAYS = 2
    assert next(row.due for row in retention.policies() if row.what.startswith("events")) == 1
    retention.retain()
    assert not Event.objects.filter(id=old.id).exists()
    assert Event.objects.get(kind="EventsDeleted").cause == "1, whose retention is over"


def test_code_that_no_job_uses_any_more_is_listed_and_goes_after_its_grace(
    cast: Cast, world: World, settings: Any
) -> None:
    begun = artifact_services.start_upload(actor_of(cast.owner), "vision", "code", "old code")
    artifact_services.receive_file(actor_of(cast.owner), begun.id, "train.py", io.BytesIO(b"old"))
    code = artifact_services.complete_upload(actor_of(cast.owner), begun.id)
    Manifest.objects.filter(id=code.id).update(created_ms=1)
    services.clean()
    assert not Leftover.objects.filter(kind="files").exists()
    settings.BUNDLE_RETENTION_DAYS = 5
    job = Job.objects.get(id=world.job)
    Job.objects.filter(id=job.id).update(spec={**job.spec, "code": code.id})
    services.clean()
    assert not Leftover.objects.filter(item=code.id).exists()
    Job.objects.filter(id=job.id).update(submitted_ms=1, finished_ms=2, state="succeeded")
    services.clean()
    row = Leftover.objects.get(item=code.id)
    Leftover.objects.filter(id=row.id).update(found_ms=1)
    Job.objects.filter(id=job.id).update(submitted_ms=now_ms())
    services.clean()
    assert Manifest.objects.get(id=code.id).source_url
    Job.objects.filter(id=job.id).update(submitted_ms=1)
    services.clean()
    Leftover.objects.filter(item=code.id).update(found_ms=1)
    services.clean()
    assert Manifest.objects.get(id=code.id).source_url == ""
