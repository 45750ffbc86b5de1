"""The two ends of `benchmarks.dataplane`, each a process: `WAY ROLE ROOT [--port P --name N] [--tls]`."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import grpc

from agent.manifests import Manifests
from agent.transfer.disk.landing import Landing
from agent.transfer.orders.deployments import Deployments, Trust
from agent.transfer.peers.memory import keep_freed_blocks
from agent.transfer.peers.neighbour import Neighbour, Patience, Security
from platform_core.distribution.content.manifest import Manifest, from_json
from platform_core.node.observed import TransferState
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer

BLOCK = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way")
    parser.add_argument("role")
    parser.add_argument("root", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="sender")
    parser.add_argument("--tls", action="store_true")
    asked = parser.parse_args()
    manifest = from_json((asked.root / "manifest.json").read_bytes())
    keep_freed_blocks()
    if asked.way.startswith("agent"):
        asyncio.run(agent(asked, manifest))
    elif asked.role == "send":
        send(asked)
    else:
        receive(asked, manifest)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


# -- agents


async def agent(asked: argparse.Namespace, manifest: Manifest) -> None:
    root: Path = asked.root
    shown, security = credentials(root) if asked.tls else (None, Security())
    changed = asyncio.Event()
    data = root / asked.name
    data.mkdir(parents=True, exist_ok=True)

    async def platform(_: str) -> bytes:
        return (root / "manifest.json").read_bytes()

    deployments = Deployments(data, Manifests(data, platform), changed.set, Trust(security))
    port = await deployments.start("127.0.0.1", 0, shown)
    if asked.role == "send":
        deployments.receive(order(manifest, root))
        await complete(deployments, changed)
        say(port=port)
        before = time.process_time()
        await asyncio.to_thread(sys.stdin.readline)
        say(cpu_s=time.process_time() - before)
        return
    start, before = time.monotonic(), time.process_time()
    if asked.way == "agent":
        deployments.receive(order(manifest, root, Peer("sender", f"127.0.0.1:{asked.port}")))
        await complete(deployments, changed)
        verified = True
    else:
        verified = await drain(manifest, asked.port, security) == manifest.total_bytes
    seconds, cpu = time.monotonic() - start, time.process_time() - before
    await deployments.close()
    shutil.rmtree(data, ignore_errors=True)
    say(seconds=seconds, cpu_s=cpu, verified=verified)


def credentials(root: Path) -> tuple[grpc.ServerCredentials, Security]:
    """Both sides show the same certificate, and both must."""
    key, certificate = (root / "node.key").read_bytes(), (root / "node.crt").read_bytes()
    shown = grpc.ssl_server_credentials([(key, certificate)], certificate, require_client_auth=True)
    return shown, Security(grpc.ssl_channel_credentials(certificate, key, certificate))


def order(manifest: Manifest, root: Path, *peers: Peer) -> DeploymentWanted:
    artifact = ArtifactReference(manifest.id, (root / "store").as_uri())
    return DeploymentWanted("dep-1", "vision/large", "1", artifact, peers, "token")


async def complete(deployments: Deployments, changed: asyncio.Event) -> None:
    while True:
        seen = deployments.observed()[0]
        if seen.state is TransferState.COMPLETE:
            return
        if seen.state is TransferState.FAILED:
            raise SystemExit(seen.error)
        changed.clear()
        await changed.wait()


async def drain(manifest: Manifest, port: int, security: Security) -> int:
    landing = Landing(manifest, Path(), Path())
    sender = Neighbour(
        Peer("sender", f"127.0.0.1:{port}"), landing, 1, "token", Patience(), security,
        lambda: None, lambda *_: None,
    )  # fmt: skip
    total = 0
    async for _, parts in sender.pieces(landing, range(landing.count)):
        total += sum(len(part) for part in parts)
    await sender.close()
    return total


# -- blocking sockets


def send(asked: argparse.Namespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        say(port=server.getsockname()[1])
        plain, _ = server.accept()
    before = time.process_time()
    file = os.open(asked.root / "store" / "weights.bin", os.O_RDONLY)
    with wrapped(plain, asked, server_side=True) as connection:
        buffer = memoryview(bytearray(BLOCK))
        while size := os.readv(file, [buffer]):
            connection.sendall(buffer[:size])
    sys.stdin.readline()
    say(cpu_s=time.process_time() - before)


def receive(asked: argparse.Namespace, manifest: Manifest) -> None:
    start, before = time.monotonic(), time.process_time()
    keeps = asked.way == "sockets"
    path = asked.root / f"{asked.name}.bin"
    with wrapped(socket.create_connection(("127.0.0.1", asked.port)), asked, False) as connection:
        verified = keep(connection, manifest, path) if keeps else drop(connection) == manifest.total_bytes
    seconds, cpu = time.monotonic() - start, time.process_time() - before
    path.unlink(missing_ok=True)
    say(seconds=seconds, cpu_s=cpu, verified=verified)


def keep(connection: socket.socket, manifest: Manifest, path: Path) -> bool:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    whole, right = hashlib.sha256(), True
    buffer = memoryview(bytearray(manifest.piece_size))
    for chunk in manifest.chunks:
        for piece in manifest.pieces(chunk):
            data, done = buffer[: piece.size], 0
            while done < piece.size and (size := connection.recv_into(data[done:])):
                done += size
            right &= hashlib.sha256(data).hexdigest() == piece.sha256
            whole.update(data)
            os.pwrite(file, data, piece.offset)
    os.close(file)
    return right and whole.hexdigest() == manifest.files[0].sha256


def drop(connection: socket.socket) -> int:
    buffer, total = memoryview(bytearray(BLOCK)), 0
    while size := connection.recv_into(buffer):
        total += size
    return total


def wrapped(plain: socket.socket, asked: argparse.Namespace, server_side: bool) -> socket.socket:
    if not asked.tls:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(asked.root / "node.crt", asked.root / "node.key")
    context.load_verify_locations(asked.root / "node.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    name = None if server_side else "127.0.0.1"
    return context.wrap_socket(plain, server_side=server_side, server_hostname=name)


if __name__ == "__main__":
    main()
