"""The files of a run: put, listed, read, replaced and deleted; large ones in parts."""

import io
from collections.abc import Callable

import pytest
from django.conf import LazySettings, settings

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast, with_token
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.artifacts.queries import path_in_store
from webapp.experiments import services
from webapp.experiments.models import FileUpload, LoggedModel, Run, RunFile

Who = Callable[[User], Actor]


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def run(alice: Actor) -> Run:
    return services.create_run(alice, services.create_experiment(alice, "vision", "rates"))


def put(actor: Actor, run: Run | LoggedModel, path: str, content: bytes) -> RunFile:
    return services.put_file(actor, run, path, io.BytesIO(content))


def content(actor: Actor, run: Run | LoggedModel, path: str, *window: int) -> bytes:
    return b"".join(services.read_file(actor, run, path, *window).blocks)


def names(actor: Actor, run: Run, folder: str = "") -> list[str]:
    return [entry.path + "/" * entry.is_folder for entry in services.list_files(actor, run, folder)]


def test_files_are_listed_by_folder_and_read_back(alice: Actor, run: Run) -> None:
    put(alice, run, "model/MLmodel", b"flavors")
    put(alice, run, "model/data/weights.bin", b"0123456789")
    put(alice, run, "empty.txt", b"")
    assert names(alice, run) == ["empty.txt", "model/"]
    assert names(alice, run, "model") == ["model/MLmodel", "model/data/"]
    assert names(alice, run, "model/MLmodel") == []
    assert content(alice, run, "model/data/weights.bin", 2, 3) == b"234"
    assert content(alice, run, "empty.txt") == b""


def test_a_path_that_is_written_again_has_the_new_bytes_only(alice: Actor, run: Run) -> None:
    put(alice, run, "a.txt", b"old")
    put(alice, run, "a.txt", b"newer")
    assert content(alice, run, "a.txt") == b"newer"
    assert [(file.path, file.size) for file in run.files.all()] == [("a.txt", 5)]


def test_a_registered_model_keeps_its_bytes_when_the_run_replaces_and_deletes_them(
    alice: Actor, run: Run
) -> None:
    put(alice, run, "model/MLmodel", b"first")
    put(alice, run, "model/weights", b"w")
    manifest = services.model_of_files(run, "model")
    assert manifest is not None
    put(alice, run, "model/MLmodel", b"second")
    services.delete_files(alice, run, "model/weights")

    store = open_store(settings.STORE_URL)
    folder = path_in_store(manifest.source_url)
    assert store.read_range(f"{folder}/MLmodel", 0, 5) == b"first"
    assert store.read_range(f"{folder}/weights", 0, 1) == b"w"
    assert content(alice, run, "model/MLmodel") == b"second"


def test_files_of_two_writings_make_one_model(alice: Actor, run: Run) -> None:
    put(alice, run, "model/MLmodel", b"first")
    put(alice, run, "model/weights", b"w")
    put(alice, run, "model/MLmodel", b"second")
    manifest = services.model_of_files(run, "model")
    assert manifest is not None
    assert [(file["path"], file["size"]) for file in manifest.document["files"]] == [
        ("MLmodel", 6),
        ("weights", 1),
    ]


def test_a_single_file_is_a_model_too(alice: Actor, run: Run) -> None:
    put(alice, run, "out/model.pkl", b"pickle")
    manifest = services.model_of_files(run, "out/model.pkl")
    assert manifest is not None
    assert [file["path"] for file in manifest.document["files"]] == ["model.pkl"]
    assert services.model_of_files(run, "nowhere") is None


@pytest.mark.parametrize("path", ["../a", "/a", "a//b", "a\\b", "", "x" * 1_001, "a\0b"])
def test_paths_that_leave_the_folder_are_refused(alice: Actor, run: Run, path: str) -> None:
    with pytest.raises(TrainmasterError) as refused:
        put(alice, run, path, b"")
    assert refused.value.code == "request_invalid"


def test_a_file_is_no_folder(alice: Actor, run: Run) -> None:
    put(alice, run, "a/b", b"")
    for path in ("a", "a/b/c"):
        with pytest.raises(TrainmasterError, match="is a folder"):
            put(alice, run, path, b"")


def test_more_than_the_team_may_keep_is_refused(alice: Actor, run: Run, settings: LazySettings) -> None:
    settings.TEAM_UPLOAD_LIMIT_BYTES = 8
    put(alice, run, "a", b"12345")
    with pytest.raises(TrainmasterError) as refused:
        put(alice, run, "b", b"12345")
    assert refused.value.code == "too_large"
    assert names(alice, run) == ["a"]


def test_a_large_file_comes_in_parts_in_any_order(alice: Actor, run: Run) -> None:
    upload = services.start_upload(alice, run, "large.bin", 3)
    for number, part in ((3, b"c"), (1, b"aa"), (2, b"bb")):
        services.receive_part(upload.id, number, io.BytesIO(part))
    row = services.complete_upload(alice, run, upload.id)
    assert (content(alice, run, "large.bin"), row.size) == (b"aabbc", 5)
    assert not FileUpload.objects.exists()


def test_an_upload_that_lacks_a_part_is_not_complete(alice: Actor, run: Run) -> None:
    upload = services.start_upload(alice, run, "large.bin", 2)
    services.receive_part(upload.id, 1, io.BytesIO(b"a"))
    with pytest.raises(TrainmasterError) as refused:
        services.complete_upload(alice, run, upload.id)
    assert refused.value.code == "upload_incomplete"
    services.abort_upload(alice, run, upload.id)
    assert names(alice, run) == []


def test_a_range_and_a_whole_file_over_rest(cast: Cast, alice: Actor, run: Run) -> None:
    put(alice, run, "page.html", b"<script>alert(1)</script>")
    client = with_token(cast.viewer)
    whole = client.get(f"/api/v1/runs/{run.id}/files/page.html")
    assert whole["Content-Type"] == "application/octet-stream"
    assert (whole["X-Content-Type-Options"], whole["Content-Length"]) == ("nosniff", "25")
    assert whole["Content-Disposition"].startswith("attachment")
    part = client.get(f"/api/v1/runs/{run.id}/files/page.html", headers={"Range": "bytes=1-6"})
    assert (part.status_code, part.getvalue()) == (206, b"script")
    assert part["Content-Range"] == "bytes 1-6/25"
    beyond = client.get(f"/api/v1/runs/{run.id}/files/page.html", headers={"Range": "bytes=99-"})
    assert beyond.status_code == 416
    assert client.get(f"/api/v1/runs/{run.id}/files/none").status_code == 404
