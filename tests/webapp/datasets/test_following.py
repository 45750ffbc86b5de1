"""A dataset whose source grows: what has come makes its next version, and versions that nothing uses are forgotten."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db.models import F

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from tests.webapp.datasets.test_registration import prefix, register
from tests.webapp.jobs.conftest import SPEC, cluster
from tests.webapp.world import _manifest
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.datasets import following, queries, registration, services
from webapp.datasets.models import Dataset, DatasetSnapshot, SourceFile
from webapp.events.models import Event
from webapp.nodes.models import Node
from webapp.storage import retention

__all__ = ["cluster", "prefix"]


def test_a_source_that_grows_is_followed(cast: Cast, prefix: Path) -> None:
    owner = actor_of(cast.owner)
    first = run(register(cast, prefix.as_uri()))
    assert following.follow_all() == 0
    with pytest.raises(TrainmasterError, match="it must be 0 or 5 to 10080"):
        services.describe(owner, "vision", first.name, follow_minutes=1)
    services.describe(owner, "vision", first.name, follow_minutes=60)

    (prefix / "later.bin").write_bytes(b"later")
    assert following.follow_all() == 1
    assert following.follow_all() == 0  # an hour has not passed
    second = run(DatasetSnapshot.objects.get(name=first.name, version=2))
    assert (second.state, second.manifest.files - first.manifest.files) == ("ready", 1)  # type: ignore[union-attr]

    for _ in range(2):  # nothing has come
        Dataset.objects.update(followed_ms=1)
        assert following.follow_all() == 1
        assert run(DatasetSnapshot.objects.latest("version")).state == "unchanged"
    assert list(DatasetSnapshot.objects.order_by("version").values_list("version", flat=True)) == [1, 2, 3]
    assert queries.card("vision", first.name).followed_ms > 1


def test_a_look_that_fails_is_said_and_the_same_version_goes_on(cast: Cast, prefix: Path) -> None:
    first = run(register(cast, prefix.as_uri()))
    services.describe(actor_of(cast.owner), "vision", first.name, follow_minutes=60)
    away = prefix.rename(prefix.with_name("away"))
    for _ in range(2):
        Dataset.objects.update(followed_ms=0)
        assert following.follow_all() == 1
        assert run(DatasetSnapshot.objects.latest("version")).state == "failed"
        assert prefix.name in queries.card("vision", first.name).follow_error
    away.rename(prefix)
    (prefix / "later.bin").write_bytes(b"later")
    Dataset.objects.update(followed_ms=0)
    following.follow_all()
    assert run(DatasetSnapshot.objects.latest("version")).version == 2
    assert DatasetSnapshot.objects.latest("version").state == "ready"
    assert queries.card("vision", first.name).follow_error == ""


def test_one_dataset_that_cannot_be_followed_holds_up_no_other(
    cast: Cast, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("images", "words"):
        run(services.register_source(actor_of(cast.owner), "vision", name, prefix.as_uri(), "train"))
        services.describe(actor_of(cast.owner), "vision", name, follow_minutes=60)
    look = following._look

    def breaks(newest: DatasetSnapshot) -> None:
        if newest.name == "images":
            raise RuntimeError("broken")
        look(newest)

    monkeypatch.setattr(following, "_look", breaks)
    assert following.follow_all() == 1
    assert "log of the workers" in queries.card("vision", "images").follow_error


def test_a_followed_source_that_is_not_allowed_any_more_is_said(
    cast: Cast, prefix: Path, settings: Any
) -> None:
    first = run(register(cast, prefix.as_uri()))
    services.describe(actor_of(cast.owner), "vision", first.name, follow_minutes=60)
    settings.SOURCE_PREFIXES = []
    assert following.follow_all() == 0
    assert "source" in queries.card("vision", first.name).follow_error


def test_an_upload_has_no_source_to_follow(cast: Cast, settings: Any, tmp_path: Path) -> None:
    settings.STORE_URL = tmp_path.as_uri()
    owner = actor_of(cast.owner)
    services.add_snapshot(owner, "vision", "sent", _manifest(owner, "dataset"), "train")
    with pytest.raises(TrainmasterError, match="there is no source to look at"):
        services.describe(owner, "vision", "sent", follow_minutes=60)


def look() -> DatasetSnapshot:
    Dataset.objects.update(followed_ms=0)
    assert following.follow_all() == 1
    return run(DatasetSnapshot.objects.latest("version"))


def delete(cast: Cast, row: DatasetSnapshot) -> None:
    services.delete_version(actor_of(cast.owner), row, lambda _: [])


@pytest.fixture
def followed(cast: Cast, prefix: Path) -> DatasetSnapshot:
    first = run(register(cast, prefix))
    services.describe(actor_of(cast.owner), "vision", first.name, follow_minutes=60)
    return first


def test_what_was_deleted_comes_only_with_something_new(
    cast: Cast, prefix: Path, followed: DatasetSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix / "bad.bin").write_bytes(b"bad")
    second = look()
    delete(cast, second)
    second.refresh_from_db()
    assert (second.state, queries.files(second)) == ("deleted", [])
    with monkeypatch.context() as patched:  # nothing is hashed again
        patched.setattr(registration, "_digest", lambda *_: pytest.fail("hashed again"))
        for _ in range(2):
            third = look()
            assert (third.version, third.state) == (3, "unchanged")
            assert third.error == "Its files are those of version 2, which was deleted; nothing is new."
    (prefix / "bad.bin").unlink()
    (prefix / "good.bin").write_bytes(b"good")
    third = look()
    assert (third.version, third.state) == (3, "ready")
    second.refresh_from_db()
    assert (second.manifest_id, second.etags, Manifest.objects.count()) == (None, [], 2)


def test_whoever_registers_the_source_again_gets_what_was_deleted(
    cast: Cast, prefix: Path, followed: DatasetSnapshot
) -> None:
    delete(cast, followed)
    assert (again := run(register(cast, prefix))).state == "ready"
    assert again.version == 2


def test_a_deleted_version_that_has_a_successor_leaves_nothing_but_its_number(
    cast: Cast, prefix: Path, followed: DatasetSnapshot
) -> None:
    (prefix / "later.bin").write_bytes(b"later")
    second = look()
    delete(cast, followed)
    followed.refresh_from_db()
    assert (followed.state, followed.manifest_id, followed.etags) == ("deleted", None, [])
    assert list(Manifest.objects.values_list("id", flat=True)) == [second.manifest_id]


def test_versions_that_nothing_uses_are_forgotten_and_the_newest_stays(
    cast: Cast, prefix: Path, followed: DatasetSnapshot, cluster: list[Node], api: Any, settings: Any
) -> None:
    used = followed
    job = {**SPEC, "num_gpus": 1, "purpose": "train", "dataset": used.id}
    assert api(cast.owner).post("/api/v1/training-jobs", job, format="json").status_code == 201
    for number in range(3):
        (prefix / f"later-{number}.bin").write_bytes(b"later")
        assert look().state == "ready"
    assert SourceFile.objects.count() == 0
    DatasetSnapshot.objects.update(created_ms=F("created_ms") - 91 * DAY_MS)
    settings.FOLLOWED_VERSION_DAYS = 0
    retention.retain()
    assert DatasetSnapshot.objects.count() == 4
    settings.FOLLOWED_VERSION_DAYS = 90
    assert next(row.due for row in retention.policies() if "followed" in row.what) == 2
    retention.retain()
    assert sorted(DatasetSnapshot.objects.values_list("version", flat=True)) == [1, 4]
    assert Manifest.objects.filter(kind="dataset").count() == 2
    (cause, _) = Event.objects.filter(kind="SnapshotDeleted").order_by("id").values_list("cause", flat=True)
    assert cause == "images version 2, which nothing used for 90 days"
    (prefix / "newest.bin").write_bytes(b"newest")
    assert look().version == 5


def test_a_database_of_before_keeps_the_etags_and_loses_the_rows(
    cast: Cast, prefix: Path, followed: DatasetSnapshot
) -> None:
    files = queries.files(followed)
    etags = dict(zip((file["path"] for file in files), followed.etags, strict=True))
    DatasetSnapshot.objects.update(etags=[])
    SourceFile.objects.bulk_create(
        SourceFile(snapshot=followed, path=path, size=1, etag=etag, done=True)
        for path, etag in reversed(etags.items())
    )
    import_module("webapp.datasets.migrations.0007_the_manifest_lists_files").keep_etags_alone(apps, None)
    assert not SourceFile.objects.exists()
    registration.check_source(followed.id)
    followed.refresh_from_db()
    assert followed.check_result["summary"] == "all 41 files are unchanged"
