"""What a scrape of /metrics costs on a large cluster: `python -m benchmarks.scrape [--nodes N] [--slots S] [--jobs J]`.

Embedded PostgreSQL and Valkey hold N nodes of S slots with telemetry and J running jobs of 20 teams (1,250, 8, 500);
/metrics is read with the scraper's token, in a process that does nothing else, as often as --times says. JSON lines:

part    median milliseconds of each part of the answer, by the clock and of the processor, each part alone
scrape  median, 95th percentile and most milliseconds of a whole answer, its bytes and samples; plain, and gzip
        as Prometheus asks for it
The goal is less than 100 ms for the whole answer.
"""

import argparse
import os
import secrets
import subprocess
import sys
from pathlib import Path

from benchmarks.metrics import databases

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_250)
    parser.add_argument("--slots", type=int, default=8, help="of each node")
    parser.add_argument("--jobs", type=int, default=500, help="running jobs")
    parser.add_argument("--times", type=int, default=40)
    options = parser.parse_args()
    sizes = [str(getattr(options, name)) for name in ("nodes", "slots", "jobs", "times")]
    with databases():
        environment = os.environ | {"TRAINMASTER_METRICS_TOKEN": secrets.token_hex(16)}
        command = [sys.executable, "-m", "benchmarks.rig.scraped", *sizes]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
