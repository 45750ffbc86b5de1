"""What the tracking of metrics costs: `python -m benchmarks.metrics [--only MEASURE …]`.

JSON lines, all from one machine:
mlflow_log_batch  points a second of 8 clients that send batches of 1,000 points (10 metrics x 100 steps) to log-batch,
                  ours and a real `mlflow server` on the same PostgreSQL wheel, each with its default processes
uplink            points a second from a script's `log()` through SDK, agent and gateway to the store
bytes_per_point   on disk after compaction, with indexes and summaries: losses computed as float32, a schedule, random
                  float64 step times, an accuracy, a percentage
curve_10m         reading a curve of 10,000,000 points to 2,000 columns: the database just started and its files out of
                  the page cache, and the median of the next reads
run_table_10k     server time of the first rows of an experiment with 10,000 runs, sorted by a metric, with 6 metrics
compare_50x24     server time and compressed bytes of the compare page of 50 runs x 24 metrics and of all its charts
The peer is installed on demand into .venv/mlflow (tools/mlflow_venv.py).
"""

import argparse
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from benchmarks.rig import tracking_live
from webapp.operations.embedded import Postgres, Valkey, running

ROOT = Path(__file__).parent.parent
STORE = ("bytes_per_point", "curve_10m", "run_table_10k", "compare_50x24")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[*LIVE, *STORE], default=[*LIVE, *STORE])
    parser.add_argument("--seconds", type=float, default=15, help="how long the clients of log-batch send")
    options = parser.parse_args()
    for measure in options.only:
        if measure in LIVE:
            report(measure, LIVE[measure](options.seconds))
    if store := [measure for measure in options.only if measure in STORE]:
        with databases() as postgres:
            in_child("prepare")
            for measure in store:
                report(measure, curve(postgres) if measure == "curve_10m" else in_child(measure))


def report(measure: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"measure": measure, **figures}), flush=True)


def log_batch(seconds: float) -> dict[str, Any]:
    """The two sides take turns, the other one idle; the median of each counts."""
    with tracking_live.platform("--agents", "0") as (ours, token), tracking_live.peer() as peer:
        turns = [
            [tracking_live.rate(ours.url, token, seconds / 3), tracking_live.rate(peer, "", seconds / 3)]
            for _ in range(3)
        ]
    rates = [statistics.median(side) for side in zip(*turns, strict=True)]
    return {
        "ours_points_per_s": round(rates[0]),
        "mlflow_points_per_s": round(rates[1]),
        "ratio": round(rates[0] / rates[1], 2),
    }


LIVE: dict[str, Callable[[float], dict[str, Any]]] = {
    "mlflow_log_batch": log_batch,
    "uplink": lambda seconds: {"points_per_s": round(tracking_live.uplink())},
}


def curve(postgres: Postgres) -> dict[str, Any]:
    in_child("load_10m")
    postgres.stop()
    evict(postgres.data)
    postgres.start()
    return in_child("curve_10m")


def evict(folder: Path) -> None:
    """Asks the kernel to forget the files of the database."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_child(measure: str) -> dict[str, Any]:
    """In a process of its own, which has read nothing before; it prints its figures."""
    command = [sys.executable, "-m", "benchmarks.rig.tracking_store", measure]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{measure} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextmanager
def databases() -> Iterator[Postgres]:
    """The embedded servers as `trainmaster up` starts them, and the environment of the children."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    folder.chmod(0o711)  # the database may run as another user
    postgres = Postgres(folder / "postgres", free_port(), secrets.token_hex(8), folder / "postgres.log")
    valkey = Valkey(folder / "valkey", free_port(), secrets.token_hex(8), folder / "valkey.log")
    try:
        with running(postgres, valkey):
            os.environ |= {
                "DATABASE_URL": postgres.url,
                "REDIS_URL": valkey.url,
                "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
                "TRAINMASTER_SECRET_KEY": secrets.token_hex(32),
                "TRAINMASTER_SECRETS_KEY": Fernet.generate_key().decode(),
                "TRAINMASTER_STORE_URL": f"file://{folder}/store",
                "TRAINMASTER_LOG_LEVEL": "ERROR",
            }
            yield postgres
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
