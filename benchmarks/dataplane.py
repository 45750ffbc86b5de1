"""One agent to another on this machine, beside plain sockets that do the same hashing and the same write.

python -m benchmarks.dataplane [--bytes N] [--piece P] [--repeat R] [--dir DIR]

JSON lines with the median of R runs, the ways taking turns. `transport`: `agent` (order to model in its place, all an
agent does), `agent-stream` (its gRPC stream alone, nothing kept), `sockets` (blocking; SHA-256 of each piece and of the
file, written to disk), `sockets-stream` (received and dropped). `hashing`: what is hashed. Bytes and seconds are of the
receiving side; CPU is of both processes together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.rig.model import make_model
from platform_core.distribution.content.manifest import Manifest, to_json

WAYS = ("sockets", "agent", "sockets-stream", "agent-stream")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--piece", type=int, default=4 << 20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dir", help="where the bytes lie; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="dataplane-") as folder:
        root = Path(folder)
        manifest = make_model(root / "store", options.bytes, options.piece)
        make_certificates(root)
        results: dict[tuple[str, bool], list[dict[str, Any]]] = {}
        for turn in range(options.repeat):
            for tls in (False, True):
                for way in WAYS:
                    measured = measure(way, tls, root, manifest, f"{way}-{tls}-{turn}")
                    results.setdefault((way, tls), []).append(measured)
        for line in lines(results, options.bytes):
            print(json.dumps(line), flush=True)


def make_certificates(root: Path) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command += ["-keyout", str(root / "node.key"), "-out", str(root / "node.crt")]
    subprocess.run(command, check=True, capture_output=True)


def measure(way: str, tls: bool, root: Path, manifest: Manifest, name: str) -> dict[str, Any]:
    (root / "manifest.json").write_text(to_json(manifest))
    secure = ["--tls"] if tls else []
    with end(way, "send", str(root), *secure) as (sender, ready):
        order = ["--port", str(ready["port"]), "--name", name]
        with end(way, "receive", str(root), *order, *secure) as (_, received):
            pass
        sender.stdin.write("done\n")
        sender.stdin.flush()
        sent = json.loads(sender.stdout.readline())
    return {**received, "cpu_s": received["cpu_s"] + sent["cpu_s"]}


@contextmanager
def end(*asked: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """One side as a process of its own, and the first line it says."""
    command = [sys.executable, "-m", "benchmarks.dataplane_ends", *asked]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(asked)} ended with {process.wait()}; see above")
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()


def lines(results: dict[tuple[str, bool], list[dict[str, Any]]], size: int) -> Iterator[dict[str, Any]]:
    rates = {
        key: size / statistics.median(each["seconds"] for each in runs) / 1e9 for key, runs in results.items()
    }
    for (way, tls), runs in results.items():
        stream = way.endswith("-stream")
        beside = "sockets-stream" if stream else "sockets"
        yield {
            "transport": way,
            "tls": tls,
            "hashing": "none" if stream else "pieces and file",
            "verified": all(each["verified"] for each in runs),
            "gb_per_s": round(rates[way, tls], 3),
            "cpu_s_per_gb": round(statistics.median(each["cpu_s"] for each in runs) / size * 1e9, 2),
            "ratio_to_sockets": round(rates[way, tls] / rates[beside, tls], 2),
            "runs": len(runs),
        }


if __name__ == "__main__":
    main()
