"""Versions of a dataset share their files in the store: each lies there once, and goes with the last that has it."""

import io
import random
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from django.conf import LazySettings

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from trainmaster.store import open_store
from trainmaster.store.copying import fetch
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries, services
from webapp.artifacts.models import Manifest, SharedFolder, Upload
from webapp.base.identity import now_ms

FIRST = {"a.bin": b"first", "deep/b.bin": b"second file"}


@pytest.fixture(autouse=True)
def store(settings: LazySettings, tmp_path: Path) -> Path:
    settings.STORE_URL = (tmp_path / "store").as_uri()
    return tmp_path / "store"


@pytest.fixture
def alice(cast: Cast) -> Actor:
    return actor_of(cast.owner)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def begun(actor: Actor, contents: Mapping[str, bytes], name: str = "faces", team: str = "vision") -> str:
    upload = services.start_upload(actor, team, "dataset", name)
    for path, content in contents.items():
        services.receive_file(actor, upload.id, path, io.BytesIO(content))
    return upload.id


def version(actor: Actor, contents: Mapping[str, bytes], name: str = "faces", team: str = "vision") -> str:
    """The id of its manifest."""
    return services.complete_upload(actor, begun(actor, contents, name, team)).id


def stored(store: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in store.rglob("*") if path.is_file()}


def read(manifest_id: str, into: Path) -> dict[str, bytes]:
    """As an agent fetches it, each chunk checked."""
    manifest = queries.manifest(manifest_id)
    fetch(manifest, queries.reference(manifest_id).source_url, into / manifest_id)
    return {entry.path: (into / manifest_id / entry.path).read_bytes() for entry in manifest.files}


def test_a_version_adds_to_the_store_what_is_new(alice: Actor, store: Path, tmp_path: Path) -> None:
    one = version(alice, FIRST)
    both = {**FIRST, "c.bin": b"third", "copy of a.bin": b"first"}
    two = version(alice, both)
    assert set(stored(store)) == {digest(b"first"), digest(b"second file"), digest(b"third")}
    assert (read(one, tmp_path), read(two, tmp_path)) == (FIRST, both)
    assert queries.stored_of("vision", "dataset") == sum(stored(store).values())
    assert queries.uploaded_bytes() == {"vision": sum(stored(store).values())}


def test_a_file_that_an_earlier_version_has_is_neither_read_nor_written(alice: Actor, store: Path) -> None:
    one = version(alice, FIRST)
    before = {path: path.stat().st_ino for path in store.rglob("*") if path.is_file()}
    upload = services.start_upload(alice, "vision", "dataset", "faces").id
    assert services.take_files(alice, upload, one, [("moved.bin", digest(b"first"))]) == ["moved.bin"]
    assert Upload.objects.get(id=upload).bytes == 0
    made = services.complete_upload(alice, upload)
    assert {path: path.stat().st_ino for path in store.rglob("*") if path.is_file()} == before
    assert [entry.path for entry in queries.manifest(made.id).files] == ["moved.bin"]
    assert (made.total_bytes, made.shared_bytes) == (5, 5)


def test_a_file_of_another_dataset_is_copied(alice: Actor, store: Path, tmp_path: Path) -> None:
    one = version(alice, FIRST)
    upload = services.start_upload(alice, "vision", "dataset", "other").id
    assert services.take_files(alice, upload, one, [("a.bin", digest(b"first"))]) == ["a.bin"]
    made = services.complete_upload(alice, upload).id
    services.discard_files(one)
    assert read(made, tmp_path) == {"a.bin": b"first"}


def test_files_go_with_the_last_version_that_has_them(alice: Actor, store: Path, tmp_path: Path) -> None:
    one, two = version(alice, FIRST), version(alice, {"a.bin": b"first", "c.bin": b"third"})
    assert services.discard_files(one)
    assert set(stored(store)) == {digest(b"first"), digest(b"third")}
    assert queries.uploaded_bytes() == {"vision": 10}, "what was the first one's is the second one's"
    assert read(two, tmp_path)["a.bin"] == b"first"
    assert services.discard_files(two)
    assert stored(store) == {}


def test_what_an_upload_has_taken_is_not_deleted_with_its_version(
    alice: Actor, store: Path, tmp_path: Path
) -> None:
    one = version(alice, FIRST)
    upload = services.start_upload(alice, "vision", "dataset", "faces").id
    services.take_files(alice, upload, one, [("kept.bin", digest(b"first"))])
    services.discard_files(one)
    made = services.complete_upload(alice, upload).id
    assert read(made, tmp_path) == {"kept.bin": b"first"}


def test_a_file_whose_deletion_broke_off_is_there_again_when_it_is_sent(
    alice: Actor, store: Path, tmp_path: Path
) -> None:
    version(alice, FIRST)
    SharedFolder.objects.update(doomed=[digest(b"third")])
    made = version(alice, {"c.bin": b"third"})
    services.finish_deletions()
    assert read(made, tmp_path) == {"c.bin": b"third"}
    assert SharedFolder.objects.get().doomed == []


def test_a_file_that_is_replaced_before_the_end_does_not_stay(alice: Actor, store: Path) -> None:
    upload = begun(alice, {"a.bin": b"wrong", "b.bin": b"right"})
    services.receive_file(alice, upload, "a.bin", io.BytesIO(b"right"))
    services.finish_deletions()
    assert set(stored(store)) == {digest(b"right")}
    services.complete_upload(alice, upload)
    assert queries.uploaded_bytes() == {"vision": 5}


def test_a_damaged_file_is_mended_by_whoever_sends_it_again(
    alice: Actor, store: Path, tmp_path: Path
) -> None:
    one = version(alice, FIRST)
    next(store.rglob(digest(b"first"))).write_bytes(b"fIrst")
    version(alice, {"new name.bin": b"first"})
    assert read(one, tmp_path) == FIRST


def test_a_file_that_the_store_has_lost_is_not_taken(alice: Actor, store: Path) -> None:
    one = version(alice, FIRST)
    next(store.rglob(digest(b"first"))).unlink()
    upload = services.start_upload(alice, "vision", "dataset", "faces").id
    both = [(path, digest(content)) for path, content in FIRST.items()]
    assert services.take_files(alice, upload, one, both) == ["deep/b.bin"]
    with pytest.raises(TrainmasterError, match=r"still waits for a\.bin"):
        services.complete_upload(alice, upload)
    services.receive_file(alice, upload, "a.bin", io.BytesIO(b"first"))
    services.complete_upload(alice, upload)


def test_an_abandoned_upload_leaves_what_versions_have(alice: Actor, store: Path, tmp_path: Path) -> None:
    one = version(alice, FIRST)
    upload = begun(alice, {"a.bin": b"first", "new.bin": b"new"})
    assert services.discard_upload(upload, Upload.objects.get(id=upload).bytes)
    assert set(stored(store)) == {digest(content) for content in FIRST.values()}
    assert read(one, tmp_path) == FIRST


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_versions_have_their_files_and_the_store_has_no_others(
    cast: Cast, store: Path, tmp_path: Path, seed: int
) -> None:
    """Versions of three datasets of two teams, of few contents, come and go; some uploads stay unfinished."""
    dice = random.Random(seed)
    actors = {"vision": actor_of(cast.owner), "nlp": actor_of(cast.outsider)}
    versions: dict[str, dict[str, bytes]] = {}
    for _ in range(30):
        team, name = dice.choice([("vision", "faces"), ("vision", "words"), ("nlp", "words")])
        match dice.choice(["new", "new", "next", "next", "delete", "begin", "abandon", "move"]):
            case "new":
                contents = {f"{n}.bin": bytes([n]) * n for n in dice.sample(range(1, 9), dice.randint(1, 5))}
                versions[version(actors[team], contents, name, team)] = contents
            case "next" | "begin" as step:
                sent = {f"{n}.bin": bytes([n]) * (n + 1) for n in dice.sample(range(1, 9), 2)}
                upload = begun(actors[team], sent, name, team)
                known = dice.choice([*versions, ""])
                old = versions.get(known, {})
                some = {path: old[path] for path in dice.sample(list(old), dice.randint(0, len(old)))}
                asked = [(path, digest(content)) for path, content in some.items()]
                taken = services.take_files(actors[team], upload, known, asked)
                is_theirs = queries.manifest_exists(known, team, "dataset")
                assert taken == (list(some) if is_theirs else [])
                if step == "next":
                    contents = {**sent, **{path: some[path] for path in taken}}
                    versions[services.complete_upload(actors[team], upload).id] = contents
            case "abandon":
                for row in Upload.objects.filter(manifest=None)[:1]:
                    services.discard_upload(row.id, row.bytes)
            case "delete" if versions:
                gone = dice.choice(list(versions))
                assert services.discard_files(gone)
                del versions[gone]
            case "move":
                for row in queries.moved_before(now_ms() + DAY_MS, 10):
                    services.discard_moved(row.id)
    for row in queries.moved_before(now_ms() + DAY_MS, 100):
        services.discard_moved(row.id)
    for upload_row in Upload.objects.filter(manifest=None):
        services.discard_upload(upload_row.id, upload_row.bytes)
    services.finish_deletions()
    assert {key: read(key, tmp_path) for key in versions} == versions
    places = Manifest.objects.exclude(source_url="").values_list("source_url", flat=True).distinct()
    held = {(place, entry.path, entry.size) for place in places for entry in open_store(place).list()}
    wanted = {
        (row.source_url, entry["sha256"], entry["size"])
        for row in Manifest.objects.exclude(source_url="")
        for entry in row.document["files"]
    }
    assert held == wanted
    assert len(held) == sum(1 for path in store.rglob("*") if path.is_file())
    counted = sum(row.total_bytes - row.shared_bytes for row in Manifest.objects.exclude(source_url=""))
    assert counted == sum(size for *_, size in held)
