"""What the rounds by the clock cost on a platform with a long past: `python -m benchmarks.housekeeping [--jobs N …]`.

For each number of ended jobs (1,000 and 100,000; each with a run, an attempt, a checkpoint, a log in the store and a
recovery) every periodic task of `webapp.config.beat` runs three times in a process of its own. JSON lines:

round      median seconds of one task
all_rounds their sum, the growth of the process's memory over the rounds, and with a second number of jobs the ratio to
           the first: 1 is a cost that does not depend on the past
The goal is less than 2 s for all rounds together at 100,000 ended jobs, and flat memory.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.metrics import databases, report

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 100_000], help="ended jobs")
    options = parser.parse_args()
    first: float | None = None
    with databases():
        for number in sorted(options.jobs):
            figures = in_child(number)
            for task, seconds in figures.pop("tasks").items():
                report("round", {"ended_jobs": number, "task": task, "seconds": seconds})
            ratio = {"ratio": round(figures["seconds"] / first, 2)} if first else {}
            first = first or figures["seconds"]
            report("all_rounds", {"ended_jobs": number, **figures, **ratio})


def in_child(number: int) -> dict[str, Any]:
    """Fills the database up to so many jobs and measures, in a process that has done nothing before."""
    command = [sys.executable, "-m", "benchmarks.rig.past", str(number)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{number} jobs failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
