"""The same files uploaded again lie in the store once, as soon as nobody can read the older copy any more."""

import io
from pathlib import Path
from typing import Any

import pytest

from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.artifacts.models import Manifest, Upload
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.storage import tiers


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Path:
    settings.STORE_URL, settings.COLD_STORE_URL = (tmp_path / "hot").as_uri(), (tmp_path / "cold").as_uri()
    return tmp_path / "hot"


def upload(user: User, days_ago: int, name: str = "faces", team: str = "vision") -> str:
    """The id of an upload of the one file, which began so many days ago."""
    begun = artifact_services.start_upload(actor_of(user), team, "dataset", name)
    artifact_services.receive_file(actor_of(user), begun.id, "a.bin", io.BytesIO(b"content"))
    artifact_services.complete_upload(actor_of(user), begun.id)
    Upload.objects.filter(id=begun.id).update(created_ms=now_ms() - days_ago * DAY_MS)
    return begun.id


def copies(store: Path) -> set[str]:
    return {path.parent.name for path in store.rglob("a.bin")}


def test_the_older_copy_goes_a_day_later_and_the_newer_one_is_read(cast: Cast, store: Path) -> None:
    older, newer = upload(cast.owner, 3), upload(cast.member, 0)
    tiers.move()
    assert copies(store) == {older, newer}
    Upload.objects.filter(id=newer).update(created_ms=now_ms() - 2 * DAY_MS)
    tiers.move()
    assert copies(store) == {newer}
    assert open_store(Manifest.objects.get().source_url).read_range("a.bin", 0, 7) == b"content"
    assert artifacts.uploaded_bytes() == {"vision": 7}
    deleted = Event.objects.get(kind="LeftoverDeleted")
    assert (deleted.subject_id, deleted.team) == (older, "vision")
    assert "faces, 7 B: the same files were uploaded again" in deleted.cause


def test_what_somebody_reads_stays(cast: Cast, store: Path) -> None:
    both = {upload(cast.owner, 3), upload(cast.owner, 2)}
    reading = {Manifest.objects.get().id}
    assert artifacts.superseded(now_ms(), 10, besides=reading) == []
    assert copies(store) == both


def test_the_copy_that_the_manifest_names_stays_although_it_began_first(cast: Cast, store: Path) -> None:
    newer, older = upload(cast.owner, 2), upload(cast.owner, 3)
    tiers.move()
    assert copies(store) == {older, newer}


def test_a_place_from_which_the_files_are_being_moved_stays(cast: Cast, store: Path) -> None:
    older, newer = upload(cast.owner, 3), upload(cast.owner, 2)
    place = f"{store.as_uri()}/dataset/{older}"
    Manifest.objects.update(moved_from=place, moved_ms=now_ms())
    tiers.move()
    assert copies(store) == {older, newer}


def test_what_another_team_or_another_name_stands_for_stays(cast: Cast, store: Path) -> None:
    kept = {
        upload(cast.outsider, 5, team="nlp"),
        upload(cast.owner, 4, name="other"),
        upload(cast.owner, 2),
    }
    tiers.move()
    assert copies(store) == kept


def test_a_copy_that_is_named_again_meanwhile_is_not_deleted(cast: Cast, store: Path) -> None:
    older, newer = upload(cast.owner, 3), upload(cast.owner, 2)
    [found] = artifacts.superseded(now_ms(), 10, besides=())
    Manifest.objects.update(source_url=f"{store.as_uri()}/dataset/{older}")
    assert not artifact_services.discard_superseded(found)
    assert copies(store) == {older, newer}
