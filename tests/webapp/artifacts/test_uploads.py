"""What an upload may replace, and what nobody may replace any more."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from django.conf import LazySettings
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from trainmaster.store import open_store
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries, services
from webapp.artifacts.models import Upload

Api = Callable[..., APIClient]
RIGHT = b"print('hello')"
TAKEN = ("train.py", sha256(RIGHT).hexdigest())


@pytest.fixture(autouse=True)
def store(settings: LazySettings, tmp_path: Path) -> Path:
    settings.STORE_URL = (tmp_path / "store").as_uri()
    return tmp_path / "store"


def begun(actor: Actor, team: str, content: bytes = RIGHT, kind: str = "code") -> str:
    upload = services.start_upload(actor, team, kind, "bytes")
    services.receive_file(actor, upload.id, "train.py", io.BytesIO(content))
    return upload.id


def bytes_of(manifest: str) -> bytes:
    source = queries.reference(manifest).source_url
    return open_store(source).read_range("train.py", 0, len(RIGHT))


def put(client: APIClient, upload: str, path: str, content: bytes = b"x") -> tuple[int, str]:
    answer = client.put(
        f"/api/v1/uploads/{upload}/files/{path}", content, content_type="application/octet-stream"
    )
    return answer.status_code, answer.json().get("detail", "")


def test_a_completed_upload_keeps_its_bytes_for_all_teams_that_sent_the_same(
    cast: Cast, api: Api, settings: LazySettings
) -> None:
    carol, alice = actor_of(cast.outsider), actor_of(cast.owner)
    hers = begun(carol, "nlp")
    manifest = services.complete_upload(carol, hers).id
    assert services.complete_upload(alice, begun(alice, "vision")).id == manifest
    newest = queries.reference(manifest).source_url.rpartition("/")[2]
    status, why = put(api(cast.outsider, "nlp"), hers, "train.py", b"import evil   ")
    assert (status, "complete already" in why) == (400, True)
    assert bytes_of(manifest) == RIGHT
    for upload in (hers, newest):
        assert open_store(f"{settings.STORE_URL}/code/{upload}").read_range("train.py", 0, 14) == RIGHT


class Slow(io.BytesIO):
    """A body in whose middle something happens."""

    def __init__(self, content: bytes, meanwhile: Callable[[], object]) -> None:
        super().__init__(content)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def read(self, size: int | None = -1) -> bytes:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            meanwhile()
        return super().read(size)


def test_an_upload_is_not_completed_while_one_of_its_files_is_being_replaced(cast: Cast) -> None:
    alice = actor_of(cast.owner)
    upload = begun(alice, "vision")
    refusals = []

    def complete() -> None:
        with pytest.raises(TrainmasterError, match=r"train\.py") as refused:
            services.complete_upload(alice, upload)
        refusals.append(refused.value.code)

    services.receive_file(alice, upload, "train.py", Slow(b"print('other')", complete))
    assert refusals == ["upload_incomplete"]
    assert bytes_of(services.complete_upload(alice, upload).id) == b"print('other')"


def test_two_requests_do_not_write_one_file_at_once(cast: Cast) -> None:
    alice = actor_of(cast.owner)
    upload = begun(alice, "vision")

    def again() -> None:
        with pytest.raises(TrainmasterError, match="is being written by another request"):
            services.receive_file(alice, upload, "train.py", io.BytesIO(b"second"))

    services.receive_file(alice, upload, "train.py", Slow(RIGHT, again))
    assert bytes_of(services.complete_upload(alice, upload).id) == RIGHT


def test_a_file_whose_sending_broke_off_can_be_sent_again(cast: Cast, store: Path) -> None:
    alice = actor_of(cast.owner)
    upload = begun(alice, "vision")

    def cut() -> None:
        raise OSError("the connection was reset")

    with pytest.raises(TrainmasterError, match="The store is not available") as refused:
        services.receive_file(alice, upload, "train.py", Slow(b"half", cut))
    assert str(store) not in refused.value.sentence
    services.receive_file(alice, upload, "train.py", io.BytesIO(RIGHT))
    assert bytes_of(services.complete_upload(alice, upload).id) == RIGHT


def test_a_new_upload_of_the_right_bytes_repairs_a_damaged_place(cast: Cast, store: Path) -> None:
    alice, carol = actor_of(cast.owner), actor_of(cast.outsider)
    manifest = services.complete_upload(carol, begun(carol, "nlp")).id
    damaged = next(store.rglob("train.py"))
    damaged.write_bytes(b"something else")
    services.complete_upload(alice, begun(alice, "vision"))
    assert bytes_of(manifest) == RIGHT


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a"), ("x/y/z", "x/y")])
def test_a_name_is_a_file_or_a_folder_but_not_both(cast: Cast, api: Api, first: str, second: str) -> None:
    upload = services.start_upload(actor_of(cast.owner), "vision", "code", "bytes")
    client = api(cast.owner)
    assert put(client, upload.id, first)[0] == 201
    status, why = put(client, upload.id, second)
    assert status == 400
    assert "is a folder" in why
    assert "/tmp" not in why


def test_a_team_that_used_up_its_bytes_is_told_so_before_they_are_kept(
    cast: Cast, api: Api, settings: LazySettings
) -> None:
    settings.TEAM_UPLOAD_LIMIT_BYTES = 2**20
    client = api(cast.owner)
    upload = begun(actor_of(cast.owner), "vision", bytes(2**20 - 10))
    status, why = put(client, upload, "more.bin", bytes(11))
    assert status == 413
    assert "1 MiB" in why
    assert "TRAINMASTER_TEAM_UPLOAD_LIMIT_BYTES" in why
    assert put(client, upload, "little.bin", bytes(10))[0] == 201
    assert put(client, upload, "train.py", bytes(10))[0] == 201, "what it replaces does not count twice"
    assert put(client, upload, "more.bin", bytes(11))[0] == 201
    assert put(api(cast.outsider, "nlp"), begun(actor_of(cast.outsider), "nlp"), "b", bytes(2**19))[0] == 201
    assert Upload.objects.get(id=upload).bytes == 31


def test_a_file_is_taken_from_an_upload_that_the_team_completed(cast: Cast, api: Api) -> None:
    alice, bob = actor_of(cast.owner), actor_of(cast.member)
    earlier = services.complete_upload(alice, begun(alice, "vision"))
    upload = services.start_upload(bob, "vision", "code", "next")
    files = [
        {"path": "moved/train.py", "sha256": sha256(RIGHT).hexdigest()},
        {"path": "new.py", "sha256": sha256(b"new").hexdigest()},
    ]
    named = {"manifest": earlier.id, "files": files}
    answer = api(cast.member).post(f"/api/v1/uploads/{upload.id}/earlier", named, format="json")
    assert answer.json() == {"taken": ["moved/train.py"], "missing": ["new.py"]}
    made = services.complete_upload(bob, upload.id)
    assert [entry.path for entry in queries.manifest(made.id).files] == ["moved/train.py"]
    assert open_store(made.source_url).read_range("moved/train.py", 0, len(RIGHT)) == RIGHT


def test_no_file_is_taken_from_what_another_team_sent(cast: Cast) -> None:
    alice, carol = actor_of(cast.owner), actor_of(cast.outsider)
    theirs = services.complete_upload(alice, begun(alice, "vision"))
    upload = services.start_upload(carol, "nlp", "code", "next")
    assert services.take_files(carol, upload.id, theirs.id, [TAKEN]) == []
    assert queries.received(upload.id) == {}


def test_a_damaged_file_is_not_taken_and_must_be_sent(cast: Cast, store: Path) -> None:
    alice = actor_of(cast.owner)
    earlier = services.complete_upload(alice, begun(alice, "vision"))
    next(store.rglob("train.py")).write_bytes(b"print('hellO')")
    upload = services.start_upload(alice, "vision", "code", "next")
    assert services.take_files(alice, upload.id, earlier.id, [TAKEN]) == []
    with pytest.raises(TrainmasterError, match="still waits for"):
        services.complete_upload(alice, upload.id)
    services.receive_file(alice, upload.id, "train.py", io.BytesIO(RIGHT))
    assert services.complete_upload(alice, upload.id).id == earlier.id


def test_a_person_goes_on_with_their_own_newest_upload_that_is_not_complete(cast: Cast, api: Api) -> None:
    alice, bob = actor_of(cast.owner), actor_of(cast.member)
    wanted = {"team": "vision", "kind": "code", "name": "bytes", "resume": True}
    begun(bob, "vision")
    services.complete_upload(alice, begun(alice, "vision", b"print('other')"))
    hers = begun(alice, "vision")
    answer = api(cast.owner).post("/api/v1/uploads", wanted, format="json").json()
    part = {"sha256": sha256(RIGHT).hexdigest(), "size": len(RIGHT)}
    assert answer == {"id": hers, "files": {"train.py": part}}
    assert (
        api(cast.owner).post("/api/v1/uploads", {**wanted, "resume": False}, format="json").json()["id"]
        != hers
    )


def test_programs_are_named_when_an_upload_is_complete(cast: Cast, api: Api) -> None:
    client = api(cast.owner)
    upload = begun(actor_of(cast.owner), "vision")
    address = f"/api/v1/uploads/{upload}/complete"
    refused = client.post(address, {"files": 1, "executable": ["run.sh"]}, format="json")
    assert (refused.status_code, "run.sh was not sent" in refused.json()["detail"]) == (400, True)
    made = client.post(address, {"files": 1, "executable": ["train.py"]}, format="json").json()
    [file] = queries.manifest(made["manifest"]).files
    assert (file.path, file.executable) == ("train.py", True)
