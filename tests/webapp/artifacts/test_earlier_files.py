"""Files of an earlier version join an upload, many with one request."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from trainmaster.store.file import FileStore
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries, services
from webapp.artifacts.models import SharedFolder, Upload, UploadFile

Api = Callable[..., APIClient]
FILES = {f"{number:03}.bin": b"content %d" % number for number in range(20)}


@pytest.fixture(autouse=True)
def store(settings: LazySettings, tmp_path: Path) -> Path:
    settings.STORE_URL = (tmp_path / "store").as_uri()
    return tmp_path / "store"


@pytest.fixture
def alice(cast: Cast) -> Actor:
    return actor_of(cast.owner)


@pytest.fixture
def earlier(alice: Actor) -> str:
    """The manifest of a version with all files."""
    upload = begun(alice)
    for path, content in FILES.items():
        services.receive_file(alice, upload, path, io.BytesIO(content))
    return services.complete_upload(alice, upload).id


@pytest.fixture
def upload(alice: Actor, earlier: str) -> str:
    return begun(alice)


def begun(actor: Actor) -> str:
    return services.start_upload(actor, "vision", "dataset", "faces").id


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def named(*paths: str) -> list[tuple[str, str]]:
    """Each with the digest of the file that the version has there."""
    return [(path, digest(FILES[path])) for path in paths]


def statements(alice: Actor, earlier: str, upload: str, count: int) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert len(services.take_files(alice, upload, earlier, named(*list(FILES)[:count]))) == count
    return len(asked)


def test_twenty_files_need_as_many_statements_as_two(alice: Actor, earlier: str) -> None:
    queries.file_parts(earlier)  # read once by each process
    few = statements(alice, earlier, begun(alice), 2)
    assert statements(alice, earlier, begun(alice), 20) == few
    assert few < 15


def test_a_request_that_is_repeated_changes_nothing(alice: Actor, earlier: str, upload: str) -> None:
    assert services.take_files(alice, upload, earlier, named(*FILES)) == list(FILES)
    before = list(UploadFile.objects.order_by("path").values())
    assert services.take_files(alice, upload, earlier, named(*FILES)) == list(FILES)
    assert list(UploadFile.objects.order_by("path").values()) == before
    assert services.complete_upload(alice, upload, len(FILES)).id == earlier


def test_files_that_the_version_does_not_have_are_named(
    cast: Cast, api: Api, earlier: str, upload: str
) -> None:
    wanted = [*named("001.bin"), ("new.bin", digest(b"new")), *named("002.bin")]
    answer = ask(api(cast.owner), upload, earlier, wanted)
    assert answer.json() == {"taken": ["001.bin", "002.bin"], "missing": ["new.bin"]}
    assert set(queries.received(upload)) == {"001.bin", "002.bin"}


def ask(client: APIClient, upload: str, manifest: str, files: list[tuple[str, str]]) -> Any:
    body = {"manifest": manifest, "files": [{"path": path, "sha256": digest} for path, digest in files]}
    return client.post(f"/api/v1/uploads/{upload}/earlier", body, format="json")


@pytest.mark.parametrize(
    ("paths", "status", "why"),
    [
        (["../001.bin"], 422, "'..' part"),
        (["/etc/passwd"], 422, "must be relative"),
        (["a\\b"], 422, "forward slashes"),
        (["a.bin", "a.bin"], 400, "a.bin is not valid: it is there twice"),
        (["a", "a/b.bin"], 400, "a is a folder, as a/b.bin lies in it"),
        (["there"], 400, "there is a folder, as there/x.bin lies in it"),
        (["there/x.bin/y"], 400, "there/x.bin is a folder"),
        ([f"{number}.bin" for number in range(1_001)], 400, "takes at most 1000 files; send several"),
    ],
)
def test_one_wrong_path_and_none_is_taken(
    cast: Cast, api: Api, earlier: str, upload: str, paths: list[str], status: int, why: str
) -> None:
    services.receive_file(actor_of(cast.owner), upload, "there/x.bin", io.BytesIO(b"x"))
    wanted = [*named("002.bin"), *((path, digest(FILES["001.bin"])) for path in paths)]
    answer = ask(api(cast.owner), upload, earlier, wanted[-1_001:])
    assert (answer.status_code, why in answer.json()["detail"]) == (status, True), answer.json()
    assert set(queries.received(upload)) == {"there/x.bin"}


def test_a_file_keeps_the_spaces_of_its_name(cast: Cast, api: Api, earlier: str, upload: str) -> None:
    ask(api(cast.owner), upload, earlier, [(" a .bin ", digest(FILES["001.bin"]))])
    assert set(queries.received(upload)) == {" a .bin "}


def test_nobody_else_takes_files_into_an_upload(cast: Cast, api: Api, earlier: str, upload: str) -> None:
    for client in (api(cast.member), api(cast.outsider, "nlp")):
        assert ask(client, upload, earlier, named("001.bin")).status_code == 404
    assert queries.received(upload) == {}


def test_nothing_is_taken_into_a_complete_upload(alice: Actor, earlier: str, upload: str) -> None:
    services.take_files(alice, upload, earlier, named("001.bin"))
    services.complete_upload(alice, upload)
    with pytest.raises(TrainmasterError, match="it is complete already"):
        services.take_files(alice, upload, earlier, named("002.bin"))


class Meanwhile(io.BytesIO):
    """A body in whose middle something happens."""

    def __init__(self, content: bytes, act: Callable[[], object]) -> None:
        super().__init__(content)
        self._act = act

    def read(self, size: int | None = -1) -> bytes:
        self._act()
        return super().read(size)


def test_a_file_that_is_being_sent_is_not_taken(alice: Actor, earlier: str, upload: str) -> None:
    def take() -> None:
        with pytest.raises(TrainmasterError, match=r"002\.bin .* is being written by another request"):
            services.take_files(alice, upload, earlier, named("001.bin", "002.bin"))

    services.receive_file(alice, upload, "002.bin", Meanwhile(b"new", take))
    assert set(queries.received(upload)) == {"002.bin"}


def test_what_a_taken_file_replaces_is_given_back(
    alice: Actor, earlier: str, upload: str, store: Path
) -> None:
    services.receive_file(alice, upload, "001.bin", io.BytesIO(b"wrong"))
    assert Upload.objects.get(id=upload).bytes == 5
    services.take_files(alice, upload, earlier, named("001.bin", "002.bin"))
    services.finish_deletions()
    assert Upload.objects.get(id=upload).bytes == 0
    assert {path.name for path in store.rglob("*") if path.is_file()} == set(map(digest, FILES.values()))


def test_a_file_whose_sending_broke_off_may_be_taken(alice: Actor, earlier: str, upload: str) -> None:
    def cut() -> None:
        raise OSError("the connection was reset")

    with pytest.raises(TrainmasterError, match="The store is not available"):
        services.receive_file(alice, upload, "001.bin", Meanwhile(b"half", cut))
    services.take_files(alice, upload, earlier, named("001.bin"))
    assert services.complete_upload(alice, upload).files == 1


def test_files_are_looked_for_again_when_some_were_deleted_meanwhile(
    alice: Actor, earlier: str, upload: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion ends between the look into the store and the note of what is there."""
    gone = digest(FILES["001.bin"])
    size = FileStore.size

    def look(self: FileStore, path: str) -> int:
        seen = size(self, path)
        if path == gone:
            self.delete(gone)
            deletions.append(path)
        return seen

    deletions: list[str] = []
    claim = services.claim

    def after_a_deletion(*given: Any) -> bool:
        SharedFolder.objects.update(deletions=len(deletions))
        return claim(*given)

    monkeypatch.setattr(FileStore, "size", look)
    monkeypatch.setattr("webapp.artifacts.shared_files.claim", after_a_deletion)
    assert services.take_files(alice, upload, earlier, named("001.bin", "002.bin")) == ["002.bin"]
    assert deletions == [gone]


def test_a_file_that_is_about_to_be_deleted_is_not_taken(alice: Actor, earlier: str, upload: str) -> None:
    SharedFolder.objects.update(doomed=[digest(FILES["001.bin"])])
    assert services.take_files(alice, upload, earlier, named("001.bin", "002.bin")) == ["002.bin"]
    assert SharedFolder.objects.get().doomed == []
