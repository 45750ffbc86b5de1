from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.contracts.stores import RangeHandler, StallingHandler, Written
from trainmaster.store import open_store


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A real HTTP server that speaks S3."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a prefix in a new bucket; boto3 finds its server as it would in production."""
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.session.Session().client("s3")
    bucket = f"models-{len(client.list_buckets()['Buckets'])}"
    client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/team a"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a web server that answers ranges, and the folder behind it."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def stalling() -> Iterator[str]:
    """The URL of a web server that falls silent in the middle of every answer."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StallingHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    StallingHandler.end.set()
    server.shutdown()
    thread.join()
    server.server_close()
    StallingHandler.end.clear()


@pytest.fixture(params=["file", "s3"])
def writable(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    """Each kind of store that can be written."""
    url = (tmp_path / "sto re").as_uri() if request.param == "file" else request.getfixturevalue("s3")
    store = open_store(url)
    return Written(store, lambda path, data: store.write(path, [data]))


@pytest.fixture(params=["file", "s3", "http"])
def readable(request: pytest.FixtureRequest) -> Written:
    """Each kind of store, with the way by which files get into it."""
    if request.param == "http":
        url, folder = request.getfixturevalue("web")

        def put(path: str, data: bytes) -> None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)

        return Written(open_store(url), put)
    url = (
        request.getfixturevalue("tmp_path").joinpath("store").as_uri()
        if request.param == "file"
        else request.getfixturevalue("s3")
    )
    store = open_store(url)
    writer: Callable[[str, bytes], object] = lambda path, data: store.write(path, [data])  # noqa: E731
    return Written(store, writer)
