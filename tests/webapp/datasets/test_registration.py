"""A dataset is registered where it lies: listed and hashed in steps, pinned, compared again, continued by versions."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.support.s3 import gs, s3, s3_client, s3_server
from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from tests.webapp.jobs.conftest import SPEC, cluster, tick
from tests.webapp.world import _manifest
from trainmaster.store import open_store
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.datasets import queries, registration, services
from webapp.datasets.models import DatasetSnapshot, SourceFile
from webapp.nodes.models import Node
from webapp.rpc.wanted import wanted_states

__all__ = ["cluster", "gs", "s3", "s3_client", "s3_server"]


@pytest.fixture
def prefix(tmp_path: Path, settings: Any) -> Path:
    place = tmp_path / "shared"
    (place / "images" / "cats").mkdir(parents=True)
    for number in range(40):
        (place / "images" / "cats" / f"{number:02}.bin").write_bytes(bytes([number]) * 100)
    (place / "images" / "labels.csv").write_text("file,label\n00.bin,cat\n01.bin,\n")
    settings.SOURCE_PREFIXES = [place.as_uri()]
    return place / "images"


def register(cast: Cast, place: Path | str, **more: Any) -> DatasetSnapshot:
    url = place.as_uri() if isinstance(place, Path) else place
    return services.register_source(actor_of(cast.owner), "vision", "images", url, "train", **more)


def test_files_stay_where_they_lie_and_make_a_manifest(cast: Cast, prefix: Path) -> None:
    row = run(register(cast, prefix))
    assert (row.state, row.files_done, row.bytes_done) == ("ready", 41, 4000 + 30)
    manifest = artifacts.manifest(str(row.manifest_id))
    assert manifest.kind == "dataset"
    assert [entry.path for entry in manifest.files][:1] == ["cats/00.bin"]
    assert artifacts.reference(manifest.id).source_url == prefix.as_uri()
    assert not row.sources.exists()
    assert len(row.etags) == 41


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_prefix_of_a_bucket_is_pinned_by_its_etags(
    cast: Cast, kind: str, settings: Any, request: pytest.FixtureRequest
) -> None:
    s3 = request.getfixturevalue(kind)
    settings.SOURCE_PREFIXES = [s3]
    store = open_store(s3)
    for name in ("a.bin", "b/c.bin"):
        store.write(f"images/{name}", [name.encode()])
    row = run(register(cast, f"{s3}/images"))
    assert row.state == "ready"
    assert artifacts.reference(str(row.manifest_id)).etags == (
        store.etag("images/a.bin"), store.etag("images/b/c.bin"),
    )  # fmt: skip
    store.write("images/a.bin", [b"other"])
    registration.check_source(row.id)
    row.refresh_from_db()
    assert (row.check_result["summary"], row.check_result["changed"]) == ("1 changed", ["a.bin"])


def test_a_step_that_comes_twice_is_dropped_and_a_lost_one_is_sent_again(
    cast: Cast, prefix: Path, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    monkeypatch.setattr(registration, "STEP_SECONDS", 0.0)
    row = register(cast, prefix)
    registration.advance(row.id, 0)
    registration.advance(row.id, 0)
    row.refresh_from_db()
    assert (row.state, row.step, row.files_done) == ("hashing", 1, 0)
    registration.advance(row.id, 1)
    row.refresh_from_db()
    assert (row.state, row.files_done) == ("hashing", 16)
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(registration.hints, "register", lambda *step: sent.append(step))
    registration.continue_all()
    assert sent == []
    DatasetSnapshot.objects.update(stepped_ms=0)
    registration.continue_all()
    assert sent == [(row.id, 2)]
    assert run(row).state == "ready"


def test_a_later_version_hashes_only_what_is_new(
    cast: Cast, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(register(cast, prefix))
    (prefix / "cats" / "40.bin").write_bytes(b"new")
    (prefix / "cats" / "00.bin").write_bytes(b"edited")
    hashed: list[str] = []
    digest = registration._digest
    monkeypatch.setattr(
        registration,
        "_digest",
        lambda store, row, sizes: (hashed.append(row.path), digest(store, row, sizes))[1],
    )
    second = run(register(cast, prefix))
    assert sorted(hashed) == ["cats/00.bin", "cats/40.bin"]
    assert (second.state, second.version, second.base_id) == ("ready", 2, first.id)
    changes = queries.difference(first, second)
    assert (changes.added, changes.changed, changes.unchanged) == (("cats/40.bin",), ("cats/00.bin",), 40)
    third = run(register(cast, prefix))
    assert (third.state, third.error) == ("unchanged", "Its files are those of version 2; nothing is new.")


def test_a_file_that_changes_under_our_hands_fails_the_registration_and_it_is_resumed(
    cast: Cast, prefix: Path
) -> None:
    row = register(cast, prefix)
    registration.advance(row.id, 0)
    (prefix / "cats" / "07.bin").write_bytes(b"written meanwhile")
    row = run(row)
    assert row.state == "failed"
    assert "since it was listed" in row.error
    done = SourceFile.objects.filter(done=True).count()
    services.resume(actor_of(cast.owner), row)
    registration.advance(row.id, row.step)
    assert SourceFile.objects.filter(done=True).count() == done
    assert run(row).state == "ready"
    with pytest.raises(TrainmasterError, match="only a failed one"):
        services.resume(actor_of(cast.owner), row)


def test_what_has_changed_in_the_source_is_found(cast: Cast, prefix: Path) -> None:
    row = run(register(cast, prefix))
    registration.check_source(row.id)
    row.refresh_from_db()
    assert row.check_result["summary"] == "all 41 files are unchanged"
    os.utime(prefix / "cats" / "03.bin", ns=(1, 1))
    (prefix / "cats" / "04.bin").unlink()
    (prefix / "new.bin").write_bytes(b"1")
    registration.check_source(row.id)
    row.refresh_from_db()
    assert row.check_result == {
        "summary": "1 added, 1 removed, 1 changed",
        "differs": True,
        "added": ["new.bin"],
        "removed": ["cats/04.bin"],
        "changed": ["cats/03.bin"],
    }


def test_named_files_alone_are_registered(cast: Cast, prefix: Path) -> None:
    row = run(register(cast, prefix, paths=["labels.csv", "cats/01.bin"]))
    assert [file["path"] for file in queries.files(row)] == ["cats/01.bin", "labels.csv"]


def test_rest_registers_shows_progress_files_preview_and_checks(
    cast: Cast, prefix: Path, api: Any, client: APIClient
) -> None:
    alice = api(cast.owner)
    body = {"team": "vision", "source_url": prefix.as_uri(), "purpose": "train", "projects": ["maps"]}
    made = alice.post("/api/v1/datasets/images/snapshots", body, format="json")
    assert (made.status_code, made.json()["state"]) == (201, "listing")
    one = f"/api/v1/dataset-snapshots/{made.json()['id']}"
    assert alice.post(f"{one}/check").status_code == 400
    run(DatasetSnapshot.objects.get())
    assert alice.get(one).json()["files_done"] == 41
    files = alice.get(f"{one}/files").json()
    assert (len(files["results"]), files["next"], files["results"][0]["path"]) == (41, None, "cats/00.bin")
    shown = alice.get(f"{one}/preview", {"path": "labels.csv"}).json()
    assert (shown["kind"], [column["nulls"] for column in shown["columns"]]) == ("table", [0, 1])
    assert alice.get(f"{one}/preview", {"path": "../x"}).status_code == 404
    assert alice.get(f"{one}/preview", {"path": "cats/09.bin"}).json()["kind"] == "text"
    assert alice.post(f"{one}/check").status_code == 202
    both = {**body, "manifest": "man-1"}
    assert alice.post("/api/v1/datasets/images/snapshots", both, format="json").status_code == 400
    found = alice.get("/api/v1/datasets", {"search": "IMAG"}).json()["results"]
    assert [row["id"] for row in found] == [made.json()["id"]]


def test_a_job_reads_it_where_it_lies_and_an_upload_is_copied(
    cast: Cast, prefix: Path, api: Callable[..., APIClient], cluster: list[Node]
) -> None:
    row = run(register(cast, prefix))
    asked = {**SPEC, "num_gpus": 1, "purpose": "train", "mount_dataset": True}
    client = api(cast.owner)
    assert (
        client.post("/api/v1/training-jobs", {**asked, "dataset": row.id}, format="json").status_code == 201
    )
    tick()
    (launch,) = [
        attempt.launch
        for state in wanted_states([node.id for node in cluster])
        for attempt in state.attempts
        if attempt.launch
    ]
    assert launch.mount_dataset
    assert launch.delivery is None
    assert launch.dataset == artifacts.reference(str(row.manifest_id))
    alice = actor_of(cast.owner)
    uploaded = services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train")
    refused = client.post("/api/v1/training-jobs", {**asked, "dataset": uploaded.id}, format="json")
    (problem,) = refused.json()["problems"]
    assert problem["field"] == "mount_dataset"
    assert "it lies in the platform's store" in problem["sentence"]
    without = client.post("/api/v1/training-jobs", {**SPEC, "mount_dataset": True}, format="json")
    assert "is set although no dataset is given" in str(without.json()["problems"])


def test_a_streamed_dataset_is_not_delivered_before_the_start(
    cast: Cast, prefix: Path, api: Callable[..., APIClient], cluster: list[Node]
) -> None:
    row = run(register(cast, prefix))
    client = api(cast.owner)
    asked = {**SPEC, "num_gpus": 1, "purpose": "train", "stream_dataset": True, "dataset": row.id}
    assert client.post("/api/v1/training-jobs", asked, format="json").status_code == 201
    tick()
    (launch,) = [
        attempt.launch
        for state in wanted_states([node.id for node in cluster])
        for attempt in state.attempts
        if attempt.launch
    ]
    assert launch.stream_dataset
    assert launch.delivery is None
    assert launch.dataset == artifacts.reference(str(row.manifest_id))
