"""Ranges of one S3 object into memory, each hashed: by boto3 as agents read them, and by the AWS CRT client beside it.

python -m benchmarks.store_ranges [--bytes N] [--repeat R]

JSON lines, the median of R runs that take turns: transport (`boto3`, `crt`), gb_per_s, cpu_s_per_gb (of the reading
process), verified. The server is another process on this machine that answers ranges with sendfile and nothing else.
`crt` is left out where awscrt is not installed: pip install awscrt.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import http.server
import importlib.util
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agent.transfer.store.ranges import BLOCK, Ranges
from agent.transfer.store.sources import RANGE_BYTES
from trainmaster.store import open_store

IN_FLIGHT = 8
ACCESS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
Fetch = Callable[[int, int], Awaitable[bytes | bytearray]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--transport", choices=sorted(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.transport:
        print(json.dumps(asyncio.run(WAYS[options.transport](options.url, options.bytes))))
        return
    ways = [way for way in WAYS if way != "crt" or importlib.util.find_spec("awscrt")]
    with tempfile.TemporaryDirectory(prefix="store-ranges-") as folder, serving(Path(folder)) as url:
        digest = make_object(Path(folder) / "models" / "x", options.bytes)
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(options.repeat):
            for way in ways:
                runs[way].append(measure(way, url, options.bytes))
        for way in ways:
            print(json.dumps(line(way, runs[way], options.bytes, digest)), flush=True)


def line(way: str, runs: list[dict[str, Any]], size: int, digest: str) -> dict[str, Any]:
    def middle(name: str) -> float:
        return float(statistics.median(run[name] for run in runs))

    return {
        "transport": way,
        "gb_per_s": round(size / 1e9 / middle("seconds"), 3),
        "cpu_s_per_gb": round(middle("cpu_s") / (size / 1e9), 3),
        "verified": all(run["sha256"] == digest for run in runs),
        "bytes": size,
    }


def measure(way: str, url: str, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.store_ranges", "--transport", way, "--url", url]
    environment = {**os.environ, **ACCESS, "AWS_ENDPOINT_URL": url}
    ran = subprocess.run(
        [*command, "--bytes", str(size)], env=environment, check=True, capture_output=True, text=True
    )
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


# -- the two ways, each in a process of its own


async def by_boto3(url: str, size: int) -> dict[str, Any]:
    with ThreadPoolExecutor(IN_FLIGHT) as executor:
        store, ranges = open_store("s3://models", attempts=1), Ranges(executor)
        etag = store.etag("x")
        stream = partial(_streamed, store, etag)
        return await timed(lambda start, wanted: ranges.fetch(stream, start, wanted), size)


def _streamed(store: Any, etag: str, start: int, size: int) -> Generator[bytes, None, None]:
    yield from store.stream_range("x", start, size, etag, block=BLOCK)


async def by_crt(url: str, size: int) -> dict[str, Any]:
    from awscrt import auth, http, io, s3  # an installation need not have it

    address = url.removeprefix("http://")
    bootstrap = io.ClientBootstrap(io.EventLoopGroup(), io.DefaultHostResolver(io.EventLoopGroup()))
    keys = ACCESS["AWS_ACCESS_KEY_ID"], ACCESS["AWS_SECRET_ACCESS_KEY"]
    client = s3.S3Client(
        bootstrap=bootstrap,
        region="us-east-1",
        tls_mode=s3.S3RequestTlsMode.DISABLED,
        part_size=RANGE_BYTES,
        throughput_target_gbps=10,
        signing_config=s3.create_default_s3_signing_config(
            region="us-east-1", credential_provider=auth.AwsCredentialsProvider.new_static(*keys)
        ),
    )

    async def fetch(start: int, wanted: int) -> bytearray:
        data = bytearray(wanted)

        def body(chunk: bytes, offset: int, **_: Any) -> None:
            data[offset - start : offset - start + len(chunk)] = chunk

        headers = http.HttpHeaders([("host", address), ("range", f"bytes={start}-{start + wanted - 1}")])
        request = http.HttpRequest("GET", "/models/x", headers)
        asked = client.make_request(type=s3.S3RequestType.GET_OBJECT, request=request, on_body=body)
        await asyncio.wrap_future(asked.finished_future)
        return data

    return await timed(fetch, size)


WAYS: dict[str, Callable[[str, int], Coroutine[Any, Any, dict[str, Any]]]] = {
    "boto3": by_boto3,
    "crt": by_crt,
}


async def timed(fetch: Fetch, size: int) -> dict[str, Any]:
    """So many ranges on their way, hashed in order; without the first, which opens connections and loads modules."""
    await fetch(0, min(RANGE_BYTES, size))
    digest, began, spent = hashlib.sha256(), time.perf_counter(), time.process_time()
    starts = iter(range(0, size, RANGE_BYTES))
    under_way: list[asyncio.Task[Any]] = []
    while True:
        while len(under_way) < IN_FLIGHT and (start := next(starts, None)) is not None:
            under_way.append(asyncio.ensure_future(fetch(start, min(RANGE_BYTES, size - start))))
        if not under_way:
            break
        data = await under_way.pop(0)
        await asyncio.to_thread(digest.update, data)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - spent
    return {"seconds": seconds, "cpu_s": cpu_s, "sha256": digest.hexdigest()}


# -- the server


def make_object(path: Path, size: int) -> str:
    path.parent.mkdir(parents=True)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            block = os.urandom(min(1 << 20, size - start))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_serve, args=(folder, ports), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get(timeout=30)}"
    finally:
        process.terminate()
        process.join()


def _serve(folder: Path, ports: multiprocessing.Queue[int]) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Ranges, folder))
    ports.put(server.server_port)
    server.serve_forever()


class _Ranges(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *rest: Any) -> None:
        self._folder = folder
        super().__init__(*rest)

    def do_HEAD(self) -> None:
        self._head(200, (self._folder / self.path.lstrip("/")).stat().st_size)

    def do_GET(self) -> None:
        path = self._folder / self.path.lstrip("/")
        whole = path.stat().st_size
        given = self.headers.get("Range")
        first, last = (int(n) for n in (given or f"bytes=0-{whole - 1}").removeprefix("bytes=").split("-"))
        span = f"bytes {first}-{last}/{whole}" if given else ""
        self._head(206 if given else 200, last - first + 1, span)
        self.wfile.flush()
        with path.open("rb") as file:
            while first <= last:
                first += os.sendfile(self.connection.fileno(), file.fileno(), first, last - first + 1)

    def _head(self, status: int, size: int, span: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.send_header("ETag", '"one"')
        self.send_header("Accept-Ranges", "bytes")
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    main()
