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
from webapp.artifacts.models import Manifest
from webapp.events.models import Event
from webapp.storage import tiers


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Path:
    settings.STORE_URL, settings.COLD_STORE_URL = (tmp_path / "hot").as_uri(), ""
    return tmp_path / "hot"


def upload(user: User, name: str = "faces", team: str = "vision", kind: str = "model") -> str:
    """The id of an upload of the one file."""
    begun = artifact_services.start_upload(actor_of(user), team, kind, name)
    artifact_services.receive_file(actor_of(user), begun.id, "a.bin", io.BytesIO(b"content"))
    artifact_services.complete_upload(actor_of(user), begun.id)
    return begun.id


def copies(store: Path) -> set[str]:
    return {path.parent.name for path in store.rglob("a.bin")}


def days_pass(days: int) -> None:
    row = Manifest.objects.get()
    Manifest.objects.update(moved_ms=row.moved_ms - days * DAY_MS)


@pytest.mark.parametrize("name", ["faces", "other"])
def test_the_older_copy_goes_a_day_later_and_the_newer_one_is_read(
    cast: Cast, store: Path, name: str
) -> None:
    older, newer = upload(cast.owner), upload(cast.member, name)
    tiers.move()
    assert copies(store) == {older, newer}
    assert open_store(Manifest.objects.get().source_url).url.endswith(newer)
    days_pass(2)
    tiers.move()
    assert copies(store) == {newer}
    assert open_store(Manifest.objects.get().source_url).read_range("a.bin", 0, 7) == b"content"
    assert artifacts.uploaded_bytes() == {"vision": 7}
    deleted = Event.objects.get(kind="LeftoverDeleted")
    assert (deleted.team, deleted.cause) == (
        "vision",
        f"{name}, 7 B: the older copy; its files lie elsewhere",
    )


def test_a_copy_of_another_team_goes_too_and_both_have_the_files(cast: Cast, store: Path) -> None:
    upload(cast.outsider, team="nlp")
    newer = upload(cast.owner)
    days_pass(2)
    tiers.move()
    assert copies(store) == {newer}
    assert artifacts.uploaded_bytes() == {"nlp": 7, "vision": 7}


def test_a_third_copy_within_the_day_is_not_kept(cast: Cast, store: Path) -> None:
    older, newer = upload(cast.owner), upload(cast.member)
    upload(cast.owner)
    assert copies(store) == {older, newer}
    days_pass(2)
    tiers.move()
    assert copies(store) == {newer}


def test_of_a_dataset_there_is_one_copy_at_once(cast: Cast, store: Path) -> None:
    upload(cast.owner, kind="dataset")
    upload(cast.member, kind="dataset")
    assert len([path for path in store.rglob("*") if path.is_file()]) == 1
    assert Manifest.objects.get().moved_from == ""
    assert artifacts.uploaded_bytes() == {"vision": 7}
