"""A store that can be stopped in the middle, and nodes that pass a model along a chain, all over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.transfer.disk.holdings import Holdings
from agent.transfer.orders.pull import Trying
from agent.transfer.orders.receiver import Delivery, Receiver
from agent.transfer.peers.link import Link
from agent.transfer.peers.neighbour import Patience
from agent.transfer.peers.server import serve
from platform_core.distribution.content.manifest import Manifest, ManifestBuilder, to_json
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from platform_core.node.wanted import Peer

PIECE = 32 << 10
CHUNK = 4 * PIECE
CHUNKS = 16
MODEL, VERSION, TOKEN = "vision/bytelm", "3", "token-of-this-deployment"
QUICK = Trying(
    (0.05, 0.1, 0.2), Patience(2.0, 5.0, (0.1, 0.2, 0.4)), changed_patience=1.0, store_patience=3.0
)


def model_files(seed: int = 1, chunks: int = CHUNKS) -> dict[str, bytes]:
    weights = random.Random(seed).randbytes(chunks * CHUNK + 1000)
    return {"config/model.json": b'{"layers": 2}', "empty": b"", "weights.bin": weights}


def manifest_of(files: dict[str, bytes]) -> Manifest:
    builder = ManifestBuilder("model", CHUNK, PIECE)
    for path, data in files.items():
        builder.feed(path, data)
    return builder.finish()


class Library:
    """The platform, as far as it gives manifests by id."""

    def __init__(self, *manifests: Manifest) -> None:
        self.texts: dict[str, bytes] = {}
        self.asked: list[str] = []  # which, in order
        for manifest in manifests:
            self.add(manifest)

    def add(self, manifest: Manifest) -> None:
        self.texts[manifest.id] = to_json(manifest).encode()

    async def __call__(self, manifest_id: str) -> bytes:
        self.asked.append(manifest_id)
        if manifest_id not in self.texts:
            raise TrainmasterError("source_unavailable", f"Nobody knows {manifest_id}")
        return self.texts[manifest_id]


class GatedStore:
    """Serves files by ranges over HTTP. Holds back those that begin behind what is allowed."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.bytes_sent = 0
        self.damage_next: set[str] = set()  # files whose next range has one wrong bit
        self.broken = False
        self._allowed = 0.0
        self._held = 0
        self._change = threading.Condition()
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                store.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[GatedStore]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.open()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def allow(self, size: float) -> None:
        """What begins in the first `size` bytes of all files, one behind the other: they may be asked in any order."""
        with self._change:
            self._allowed = size
            self._change.notify_all()

    def open(self) -> None:
        self.allow(math.inf)

    async def until_held(self) -> None:
        """Until a range is held back, so that everything allowed before it has been answered or is on its way."""

        def wait() -> None:
            with self._change:
                assert self._change.wait_for(lambda: self._held > 0, 20)

        await asyncio.to_thread(wait)

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path = request.path.lstrip("/")
        first, last = (int(n) for n in request.headers["Range"].removeprefix("bytes=").split("-"))
        place = first + sum(len(data) for name, data in self.files.items() if name < path)
        data = self.files[path][first : last + 1]
        with self._change:
            self._held += 1
            self._change.notify_all()
            self._change.wait_for(lambda: place < self._allowed)
            self._held -= 1
            if self.broken:
                request.send_error(503)
                return
            self.bytes_sent += len(data)
            if path in self.damage_next:
                self.damage_next.discard(path)
                data = bytes([data[0] ^ 1]) + data[1:]
        request.send_response(206)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)


class Node:
    """One agent's transfer part. `stop` is what a killed process leaves: closed sockets, files as they are."""

    def __init__(self, name: str, data: Path, reserve_bytes: int = 0) -> None:
        self.name, self.data, self._reserve = name, data, reserve_bytes
        self.reports: list[DeploymentObserved] = []
        self.token = TOKEN
        self.trying = QUICK
        self.port = 0
        self.cap_in = self.cap_out = 0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.holdings = Holdings(self.data, self.name, self._reserve)
        self.holdings.load()
        self.receiver = Receiver(self.holdings, self._reported, self.trying, link=Link(self.cap_in))
        self.server, self.port = await serve(
            self.holdings,
            lambda token: token == self.token,
            f"127.0.0.1:{self.port}",
            link=Link(self.cap_out),
        )

    async def stop(self) -> None:
        await self.cancel()
        await self.server.stop(grace=0)
        self.holdings.close()
        self.receiver.close()

    def begin(self, delivery: Delivery) -> None:
        self.reports.clear()
        self._task = asyncio.create_task(self.receiver.run(delivery))

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def ended(self) -> DeploymentObserved:
        assert self._task is not None
        async with asyncio.timeout(60):
            await self._task
        return self.reports[-1]

    async def until(self, condition: Callable[[DeploymentObserved], bool]) -> None:
        async with asyncio.timeout(30):
            while not any(condition(report) for report in self.reports):
                await self._news.wait()

    @property
    def peer(self) -> Peer:
        return Peer(self.name, f"127.0.0.1:{self.port}")

    def home(self, version: str = VERSION) -> Path:
        return self.data / "models" / MODEL / version

    def _reported(self, progress: DeploymentObserved) -> None:
        self.reports.append(progress)
        self._news.set()
        self._news = asyncio.Event()


def delivery(manifest: Manifest, store: str, *predecessors: Node, version: str = VERSION) -> Delivery:
    """To the node after these; nearest first."""
    return Delivery(
        deployment_id="dep-1",
        manifest=manifest,
        source_url=store,
        peers=tuple(node.peer for node in predecessors),
        model=MODEL,
        version=version,
        token=TOKEN,
    )


def begin_chain(nodes: list[Node], manifest: Manifest, store: str) -> None:
    for position, node in enumerate(nodes):
        node.begin(delivery(manifest, store, *reversed(nodes[:position])))


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def digests(folder: Path) -> dict[str, str]:
    return {path: hashlib.sha256(data).hexdigest() for path, data in content(folder).items()}


def completed(progress: DeploymentObserved) -> bool:
    return progress.state is TransferState.COMPLETE
