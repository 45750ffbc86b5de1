"""A source that people name leads to no other place, through no link, beyond no limit and to no private address."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from webapp.accounts.queries import actor_of
from webapp.datasets import registration, services
from webapp.datasets.models import DatasetSnapshot


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    place = tmp_path / "shared"
    place.mkdir()
    (place / "a.bin").write_bytes(b"a")
    (tmp_path / "secret").write_bytes(b"secret")
    settings.SOURCE_PREFIXES = [place.as_uri()]
    return place


def register(cast: Cast, url: str, **more: Any) -> DatasetSnapshot:
    return services.register_source(actor_of(cast.owner), "vision", "images", url, "train", **more)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "file://{root}/..", "file://{root}/../secret", "file://{root}/%2e%2e/secret",
        "file://{root}-private", "file://{root}/out", "s3://somebody/else", "file://{store}", "ftp://host/x",
    ],
)  # fmt: skip
def test_no_spelling_leads_out_of_the_allowed_places(url: str, cast: Cast, root: Path, settings: Any) -> None:
    (root / "out").symlink_to("/etc")
    store = settings.STORE_URL.removeprefix("file://")
    with pytest.raises(TrainmasterError) as refused:
        register(cast, url.format(root=root, store=store))
    assert refused.value.code == "request_invalid"
    assert not DatasetSnapshot.objects.exists()


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "a\\b", "", "a//b", "."])
def test_no_path_leads_out_of_its_source(path: str, cast: Cast, root: Path) -> None:
    with pytest.raises(TrainmasterError) as refused:
        register(cast, root.as_uri(), paths=[path])
    assert refused.value.code == "request_invalid"


def test_a_link_is_not_followed(cast: Cast, root: Path) -> None:
    (root / "b.bin").symlink_to(root.parent / "secret")
    row = run(register(cast, root.as_uri()))
    assert row.state == "failed"
    assert "b.bin cannot be read: it is a link or a special file" in row.error


def test_a_named_file_behind_a_link_is_not_read(cast: Cast, root: Path) -> None:
    (root / "folder").symlink_to(root.parent)
    row = run(register(cast, root.as_uri(), paths=["folder/secret"]))
    assert (row.state, row.manifest_id) == ("failed", None)


@pytest.mark.parametrize("swapped", ["a.bin", "folder"])
def test_a_link_made_after_the_listing_is_not_followed(swapped: str, cast: Cast, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "secret").write_bytes(b"public")
    row = register(cast, root.as_uri())
    registration.advance(row.id, 0)
    (root / swapped).rename(root / "moved")
    (root / swapped).symlink_to(root.parent if swapped == "folder" else root.parent / "secret")
    assert run(row).state == "failed"


def test_too_many_files_and_too_many_bytes_are_refused_with_the_limit(
    cast: Cast, root: Path, settings: Any
) -> None:
    (root / "b.bin").write_bytes(b"bb")
    settings.DATASET_FILES_LIMIT = 1
    assert run(register(cast, root.as_uri())).error == "The dataset has over 1 files; the limit is 1"
    settings.DATASET_FILES_LIMIT, settings.DATASET_BYTES_LIMIT = 2, 2
    assert run(register(cast, root.as_uri())).error == "The dataset has over 2 B; the limit is 2 B"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/data", "http://localhost:1/data", "http://[::1]/data", "http://2130706433/data",
        "http://0x7f.1/data", "http://10.0.0.5/data", "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/data", "http://user:password@example.com/data",
    ],
)  # fmt: skip
def test_no_private_address_is_asked(url: str, cast: Cast) -> None:
    with pytest.raises(TrainmasterError) as refused:
        register(cast, url, paths=["a.bin"])
    assert refused.value.code == "request_invalid"


def test_the_platform_itself_is_not_asked(cast: Cast, settings: Any) -> None:
    settings.PUBLIC_URL, settings.OUTBOUND_HOSTS = "https://localhost", ["127.0.0.0/8", "::1"]
    with pytest.raises(TrainmasterError, match="is this platform itself"):
        register(cast, "http://localhost:9/data", paths=["a.bin"])


class Site(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.path == "/away/a.bin":
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.2:{self.server.server_port}/data/a.bin")  # type: ignore[attr-defined]
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.send_header("ETag", '"one"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"data")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(settings: Any) -> Iterator[str]:
    """A web server that an operator allows, and only under this address."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.PUBLIC_URL, settings.OUTBOUND_HOSTS = "https://platform.example", ["127.0.0.1"]
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_allowed_web_server_is_read_file_by_file(cast: Cast, site: str) -> None:
    row = run(register(cast, f"{site}/data", paths=["a.bin"]))
    assert (row.state, row.error, row.bytes_done) == ("ready", "", 4)
    with pytest.raises(TrainmasterError, match="cannot be listed"):
        register(cast, f"{site}/data")


def test_a_redirect_to_another_private_address_is_not_followed(cast: Cast, site: str) -> None:
    row = run(register(cast, f"{site}/away", paths=["a.bin"]))
    assert row.state == "failed"
    assert "127.0.0.2 lies in a private network" in row.error
