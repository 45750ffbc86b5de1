"""A platform with many ended jobs, and the time of each periodic task on it; for benchmarks.housekeeping."""

import json
import resource
import statistics
import sys
import time
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from platform_core.jobs import spec as specification  # noqa: E402
from webapp.accounts import services as people  # noqa: E402
from webapp.accounts.models import Role, Team, User  # noqa: E402
from webapp.accounts.permissions import SYSTEM  # noqa: E402
from webapp.artifacts.models import Manifest  # noqa: E402
from webapp.base.identity import now_ms  # noqa: E402
from webapp.checkpoints.models import Checkpoint  # noqa: E402
from webapp.config.beat import beat_schedule  # noqa: E402
from webapp.config.celery import app  # noqa: E402
from webapp.experiments.models import Experiment, Run  # noqa: E402
from webapp.jobs.models import Attempt, Job, LogChunk, Recovery  # noqa: E402

TIMES, BATCH = 3, 2_000
MINUTE_MS = 60_000
LEFT_OUT = frozenset({"pages.mail_report"})  # once a week


def main(number: int) -> None:
    prepare()
    fill(number)
    print(json.dumps(measure()))


def prepare() -> None:
    call_command("migrate", verbosity=0)
    if Team.objects.exists():
        return
    people.create_team(SYSTEM, "vision", "Vision")
    people.create_user(SYSTEM, "alice", "password of alice")
    people.set_role(SYSTEM, "vision", "alice", Role.MEMBER)
    Experiment.objects.create(team_id="vision", name="past", created_ms=1)


def fill(number: int) -> None:
    """Ended jobs up to this number, one a minute back from now."""
    for start in range(Job.objects.count(), number, BATCH):
        _batch(range(start, min(start + BATCH, number)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _batch(numbers: range) -> None:
    alice, experiment = User.objects.get(username="alice"), Experiment.objects.get(name="past")
    described = {"name": "past", "team": "vision", "command": "python train.py", "gpu_type": "cpu"}
    spec, now = specification.as_mapping(specification.parse(described)), now_ms()
    ends = {one: now - one * MINUTE_MS for one in numbers}
    Job.objects.bulk_create(
        Job(
            id=f"job-{one:016d}", team_id="vision", user=alice, name=f"past-{one}", spec=spec, state="succeeded",
            submitted_ms=end - 3 * MINUTE_MS, waiting_since_ms=end - 3 * MINUTE_MS, started_ms=end - 2 * MINUTE_MS,
            finished_ms=end, gpu_type="cpu", num_gpus=1, priority=50, attempt=2, restarts=1,
        )
        for one, end in ends.items()
    )  # fmt: skip
    Run.objects.bulk_create(
        Run(
            id=f"job-{one:016d}", job_id=f"job-{one:016d}", experiment=experiment, name=f"past-{one}", owner=alice,
            state="succeeded", source="job", created_ms=end, changed_ms=end, started_ms=end, ended_ms=end,
        )
        for one, end in ends.items()
    )  # fmt: skip
    Attempt.objects.bulk_create(
        Attempt(
            id=f"att-{one:016d}", job_id=f"job-{one:016d}", number=2, placed_ms=end - 2 * MINUTE_MS,
            running_ms=end - 2 * MINUTE_MS, ended_ms=end, master_address="127.0.0.1", master_port=1,
        )
        for one, end in ends.items()
    )  # fmt: skip
    Manifest.objects.bulk_create(
        Manifest(
            id=f"man-{one:032x}", kind="checkpoint", source_url="", total_bytes=1, files=1,
            document={"files": []}, created_ms=end,
        )
        for one, end in ends.items()
    )  # fmt: skip
    Checkpoint.objects.bulk_create(
        Checkpoint(
            id=f"ckpt-{one:015d}", job_id=f"job-{one:016d}", attempt=2, step=10, manifest_id=f"man-{one:032x}",
            saved_ms=end, bytes=1,
        )
        for one, end in ends.items()
    )  # fmt: skip
    LogChunk.objects.bulk_create(
        LogChunk(
            attempt_id=f"att-{one:016d}", rank=0, offset=0, next_offset=1000, text="", at_ms=end, stored=True
        )
        for one, end in ends.items()
    )
    Recovery.objects.bulk_create(
        Recovery(job_id=f"job-{one:016d}", attempt=1, reason="killed", began_ms=end, over=True)
        for one, end in ends.items()
    )


def measure() -> dict[str, Any]:
    """Once to warm up, then the median of some; memory grows with what one round holds at a time."""
    names = sorted({entry["task"] for entry in beat_schedule(2).values()} - LEFT_OUT)
    app.loader.import_default_modules()
    tasks = {name: app.tasks[name] for name in names}
    seconds = {name: [timed(task) for _ in range(TIMES + 1)][1:] for name, task in tasks.items()}
    before = memory_mib()
    for task in tasks.values():
        timed(task)
    medians = {name: round(statistics.median(times), 4) for name, times in seconds.items()}
    return {
        "tasks": dict(sorted(medians.items(), key=lambda pair: -pair[1])),
        "seconds": round(sum(medians.values()), 3),
        "memory_mib": memory_mib(),
        "memory_growth_mib": memory_mib() - before,
    }


def timed(task: Any) -> float:
    begun = time.perf_counter()
    task.apply(throw=True)
    return time.perf_counter() - begun


def memory_mib() -> int:
    """The most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))
