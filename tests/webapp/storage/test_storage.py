"""What a team has in the store is accounted by kind and day; left-overs are kept, or go with their bytes."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.artifacts.models import Manifest, Upload
from webapp.base.identity import now_ms
from webapp.datasets import services as datasets
from webapp.events.models import Event
from webapp.jobs.models import Job
from webapp.storage import queries, services
from webapp.storage.models import Leftover, StoredDay


@pytest.fixture
def world(cast: Cast, settings: Any, tmp_path: Path) -> World:
    settings.STORE_URL = tmp_path.as_uri()
    return build(cast)


def begun(cast: Cast, days_ago: int, kind: str = "dataset") -> Upload:
    upload = artifacts.start_upload(actor_of(cast.owner), "vision", kind, "abandoned")
    artifacts.receive_file(actor_of(cast.owner), upload.id, "half.bin", io.BytesIO(b"12345"))
    Upload.objects.filter(id=upload.id).update(created_ms=now_ms() - days_ago * DAY_MS)
    return upload


def complete(cast: Cast, text: bytes, days_ago: int, kind: str = "dataset") -> Manifest:
    upload = artifacts.start_upload(actor_of(cast.owner), "vision", kind, "unused")
    artifacts.receive_file(actor_of(cast.owner), upload.id, "data.bin", io.BytesIO(text))
    manifest = artifacts.complete_upload(actor_of(cast.owner), upload.id)
    Manifest.objects.filter(id=manifest.id).update(created_ms=now_ms() - days_ago * DAY_MS)
    return manifest


def in_store(tmp_path: Path, content: bytes) -> list[Path]:
    """As the versions of a dataset share it."""
    return list(tmp_path.rglob(sha256(content).hexdigest()))


def days_pass(days: int) -> None:
    for row in Leftover.objects.all():
        Leftover.objects.filter(pk=row.pk).update(found_ms=row.found_ms - days * DAY_MS)


def test_what_each_kind_takes_is_accounted_and_falls_to_nothing(cast: Cast, world: World) -> None:
    services.account()
    services.account()
    (vision,) = queries.teams(["vision"])
    parts = {part.kind: part for part in vision.parts}
    assert parts["dataset"].bytes == len(b"dataset")
    assert parts["code"].items == 1
    assert parts["run files"].bytes >= len(b"notes")
    assert parts["upload"].bytes == len(b"code")  # its dataset has the file of the version
    assert vision.bytes == sum(part.bytes for part in vision.parts)
    assert queries.teams(["nlp"]) == []
    Manifest.objects.filter(kind="dataset").update(source_url="")
    services.account()
    assert StoredDay.objects.get(team="vision", kind="dataset").bytes == 0
    assert "dataset" not in {part.kind for part in queries.teams(None)[0].parts}


def test_growth_is_told_with_the_day_of_the_limit(cast: Cast, world: World, settings: Any) -> None:
    services.account()
    today = StoredDay.objects.first()
    assert today is not None
    for ago in (1, 2, 3):
        StoredDay.objects.create(team_id="vision", kind="model", day=today.day - ago, bytes=0, items=1)
    settings.TEAM_UPLOAD_LIMIT_BYTES = 2**11
    (vision,) = queries.teams(["vision"])
    assert vision.growth is not None
    assert vision.growth >= 0
    StoredDay.objects.filter(kind="model").delete()
    for ago in (1, 2, 3):
        StoredDay.objects.create(
            team_id="vision", kind="checkpoint", day=today.day - ago, bytes=2**40, items=1
        )
        StoredDay.objects.create(
            team_id="vision", kind="dataset", day=today.day - ago, bytes=7 - ago, items=1
        )
    (vision,) = queries.teams(["vision"])
    assert vision.growth is not None
    assert vision.growth < 0
    assert vision.days_left is not None  # checkpoints do not count against it
    assert [day.number for day in vision.days] == [today.day - 3, today.day - 2, today.day - 1, today.day]


def test_an_abandoned_upload_goes_after_its_grace_with_its_bytes(
    cast: Cast, world: World, tmp_path: Path
) -> None:
    old, young = begun(cast, days_ago=8), begun(cast, days_ago=6)
    assert services.clean() == 0
    assert Leftover.objects.filter(item=old.id).exists()
    assert not Leftover.objects.filter(item=young.id).exists()
    days_pass(7)
    assert services.clean() >= 1
    assert not Upload.objects.filter(id=old.id).exists()
    assert len(in_store(tmp_path, b"12345")) == 1
    assert Event.objects.get(kind="LeftoverDeleted", subject_id=old.id).cause.startswith("abandoned, 5 B")


def test_files_that_no_version_refers_to_go_and_used_ones_stay(
    cast: Cast, world: World, tmp_path: Path
) -> None:
    unused, late = complete(cast, b"unused", 31), complete(cast, b"used at last", 31)
    Manifest.objects.filter(id=world.dataset_manifest).update(created_ms=1)
    services.clean()
    assert set(Leftover.objects.filter(kind="files").values_list("item", flat=True)) == {unused.id, late.id}
    datasets.add_snapshot(actor_of(cast.owner), "vision", "found", late.id, "train")
    days_pass(7)
    services.clean()
    assert (len(in_store(tmp_path, b"unused")), len(in_store(tmp_path, b"used at last"))) == (0, 1)
    assert Manifest.objects.get(id=unused.id).source_url == ""
    assert Manifest.objects.get(id=late.id).source_url != ""
    assert not Leftover.objects.filter(item=late.id).exists()


def test_what_is_kept_or_grows_again_stays(cast: Cast, world: World, api: Callable[..., APIClient]) -> None:
    kept, resumed = begun(cast, 9), begun(cast, 9)
    services.clean()
    row = Leftover.objects.get(item=kept.id)
    assert (
        api(cast.member)
        .patch(f"/api/v1/storage/leftovers/{row.pk}", {"kept": True}, format="json")
        .json()["goes_ms"]
        is None
    )
    artifacts.receive_file(actor_of(cast.owner), resumed.id, "more.bin", io.BytesIO(b"67"))
    days_pass(30)
    services.clean()
    assert Upload.objects.filter(id__in=[kept.id, resumed.id]).count() == 2
    services.keep(actor_of(cast.member), row.pk, kept=False)
    services.clean()
    assert Upload.objects.filter(id=kept.id).exists()  # its grace began anew


def test_nothing_is_deleted_where_an_operator_wants_none(cast: Cast, world: World, settings: Any) -> None:
    settings.LEFTOVER_GRACE_DAYS = 0
    upload = begun(cast, days_ago=400)
    services.clean()
    days_pass(400)
    assert services.clean() == 0
    assert Upload.objects.filter(id=upload.id).exists()


def test_the_page_shows_teams_and_left_overs_and_keeps_one(
    cast: Cast, world: World, browser: Callable[[User], Client]
) -> None:
    empty = browser(cast.outsider).get("/storage/").content.decode()
    assert "Nothing of your teams has been accounted yet." in empty
    services.account()
    begun(cast, days_ago=8)
    services.clean()
    client = browser(cast.owner)
    page = client.get("/storage/").content.decode()
    assert "upload that was never completed" in page
    assert "not known yet" in page
    row = Leftover.objects.get(name="abandoned")
    client.post(f"/storage/leftovers/{row.pk}/keep/", {"kept": "yes"})
    assert "kept by alice" in client.get("/storage/").content.decode()


def test_the_price_is_told_by_month(
    cast: Cast, world: World, settings: Any, browser: Callable[[User], Client], api: Callable[..., APIClient]
) -> None:
    services.account()
    today = StoredDay.objects.first()
    assert today is not None
    StoredDay.objects.create(team_id="vision", kind="checkpoint", day=today.day, bytes=2**41, items=1)
    assert "a month" not in browser(cast.owner).get("/storage/").content.decode()
    settings.STORAGE_PRICE = 20
    assert "$40.00 a month" in browser(cast.owner).get("/storage/").content.decode()
    (told,) = api(cast.owner).get("/api/v1/storage").json()["results"]
    assert told["month_micro_dollars"] == 40_000_000


def test_more_left_overs_than_a_round_finds_are_all_found(
    cast: Cast, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "AT_ONCE", 1)
    rows = [complete(cast, text, 31) for text in (b"first", b"second")]
    for _ in rows:
        services.clean()
    assert set(Leftover.objects.values_list("item", flat=True)) >= {row.id for row in rows}


def test_bytes_that_are_sent_again_after_their_deletion_are_left_over_again(cast: Cast, world: World) -> None:
    row = complete(cast, b"first", 31)
    services.clean()
    days_pass(8)
    services.clean()
    assert Leftover.objects.get(item=row.id).deleted_ms
    complete(cast, b"first", 31)
    services.clean()
    assert Leftover.objects.get(item=row.id).deleted_ms is None


def test_old_bundles_go_unless_a_job_has_named_them_of_late(
    cast: Cast, world: World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BUNDLE_RETENTION_DAYS = 20
    monkeypatch.setattr(services, "AT_ONCE", 1)
    used, unused = complete(cast, b"used", 32, "code"), complete(cast, b"unused", 31, "code")
    Job.objects.filter(id=world.job).update(spec=Job.objects.get(id=world.job).spec | {"code": used.id})
    for _ in range(2):
        services.clean()
    found = Leftover.objects.values_list("item", flat=True)
    assert (unused.id in found, used.id in found) == (True, False)
