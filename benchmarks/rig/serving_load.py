"""The one load generator of `benchmarks.serving`: a closed loop over raw connections, the same for each system."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

FEATURES = 1024
GRACE_SECONDS = 30.0  # beyond its time, in which what is under way has to be answered

# The status, the body and the two clock readings of one request. Status 0: the connection was lost.
Record = Callable[[int, bytes, float, float], None]


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go, and with which headers."""

    host: str
    port: int
    path: str = "/predict"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


async def drive(address: Address, at_once: int, seconds: float, row: Sequence[float] | None = None) -> Load:
    """Each of `at_once` connections sends its next request when the last one is answered."""
    latencies: list[float] = []
    failed = 0

    def record(status: int, body: bytes, began: float, ended: float) -> None:
        nonlocal failed
        if status == 200:
            latencies.append(ended - began)
        else:
            failed += 1

    began = time.perf_counter()
    until = began + seconds
    async with asyncio.timeout(seconds + GRACE_SECONDS):
        bodies = [request_of(address, seed, row) for seed in range(at_once)]
        await asyncio.gather(
            *(call([address], body, lambda: time.perf_counter() < until, record) for body in bodies)
        )
    ordered = sorted(latencies) or [0.0]
    return Load(
        per_second=round(len(latencies) / (time.perf_counter() - began), 1),
        p50_ms=round(statistics.median(ordered) * 1000, 2),
        p99_ms=round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 2),
        failed=failed,
    )


async def call(
    addresses: Sequence[Address],
    request: bytes,
    goes_on: Callable[[], bool],
    record: Record,
    pause_s: float = 0,
) -> None:
    """One caller, who goes to the next address after a connection was lost."""
    for address in cycle(addresses):
        if not goes_on():
            return
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        except OSError:  # nothing was sent
            await asyncio.sleep(0.05)
            continue
        try:
            while goes_on():
                began = time.perf_counter()
                writer.write(request)
                status, body = await _answer(reader)
                record(status, body, began, time.perf_counter())
                await asyncio.sleep(pause_s)
        except (OSError, EOFError):
            record(0, b"", began, time.perf_counter())
        finally:
            writer.close()


def request_of(address: Address, seed: int, row: Sequence[float] | None = None) -> bytes:
    rng = random.Random(seed)
    values = list(row) if row is not None else [round(rng.gauss(0, 1), 4) for _ in range(FEATURES)]
    body = json.dumps({"inputs": [values]}).encode()
    headers = [("Host", "x"), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    lines = [
        f"POST {address.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in [*headers, *address.headers]),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head:
        return status, await _chunks(reader)
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return status, await reader.readexactly(length)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body
