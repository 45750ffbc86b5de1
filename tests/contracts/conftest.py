from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.contracts.stores import RangeHandler, StallingHandler, Written
from tests.support.outbound import this_machine_may_be_asked
from tests.support.s3 import gs, s3, s3_client, s3_server
from trainmaster.store import open_store

__all__ = ["gs", "s3", "s3_client", "s3_server", "this_machine_may_be_asked"]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a web server that answers ranges, and the folder behind it."""
    with serving(tmp_path / "web", RangeHandler) as url:
        yield url, tmp_path / "web"


@contextmanager
def serving(folder: Path, handler: type[RangeHandler]) -> Iterator[str]:
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
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


@pytest.fixture(params=["file", "s3", "gs"])
def writable(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    """Each kind of store that can be written."""
    url = (
        (tmp_path / "sto re").as_uri() if request.param == "file" else request.getfixturevalue(request.param)
    )
    store = open_store(url)
    return Written(store, lambda path, data: store.write(path, [data]))


@pytest.fixture(params=["file", "s3", "gs", "http"])
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
        else request.getfixturevalue(request.param)
    )
    store = open_store(url)
    writer: Callable[[str, bytes], object] = lambda path, data: store.write(path, [data])  # noqa: E731
    return Written(store, writer)
