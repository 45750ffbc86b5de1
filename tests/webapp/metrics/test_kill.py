"""Processes that append and compact are killed at any moment: nothing acknowledged is missing, nothing is doubled."""

import random
import subprocess
from contextlib import ExitStack

import pytest

from tests.support.replicas import another_process
from tests.webapp.metrics.reading import rows
from webapp.metrics import queries, services
from webapp.metrics.models import Segment

RUN, BATCH, BATCHES, KILLS = "killed", 37, 400, 4

# Each batch has the steps after those of the batch before; the number of a batch is said once it is kept.
WRITER = f"""
import sys, django
django.setup()
from webapp.metrics import services
from webapp.metrics.values import Points
services.current_app.send_task = lambda *arguments, **options: None
for number in range(int(sys.argv[1]), {BATCHES}):
    steps = list(range(number * {BATCH}, (number + 1) * {BATCH}))
    points = [Points(key, steps, [step * factor for step in steps], steps) for key, factor in (("a", 0.5), ("b", -2.0))]
    services.append("{RUN}", points, source="writer", sequence=number)
    print(number, flush=True)
"""
COMPACTOR = f"""
import django
django.setup()
from webapp.metrics import services
print("ready", flush=True)
while True:
    services.compact("{RUN}")
"""


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_what_was_acknowledged_is_there_once_whenever_the_processes_are_killed() -> None:
    chance, kept = random.Random(5), -1
    for kill in range(KILLS + 1):
        with ExitStack() as stack:
            compactor = stack.enter_context(another_process("-c", COMPACTOR))
            # it did not hear of the last two, and sends them again
            writer = stack.enter_context(another_process("-c", WRITER, str(max(0, kept - 1))))
            assert line(compactor) == "ready"
            for _ in range(chance.randint(10, 80) if kill < KILLS else BATCHES):
                if number := line(writer):
                    kept = max(kept, int(number))
        steps = [step for step, _, _ in rows(RUN, "a")]
        assert steps[: (kept + 1) * BATCH] == list(range((kept + 1) * BATCH))
        assert steps == sorted(set(steps))
    services.compact(RUN)
    count = BATCHES * BATCH
    assert rows(RUN, "a") == [(step, step * 0.5, step) for step in range(count)]
    assert rows(RUN, "b") == [(step, step * -2.0, step) for step in range(count)]
    assert {summary.count for summary in queries.summaries([RUN])[RUN].values()} == {count}
    assert Segment.objects.filter(compacted=True).count() == Segment.objects.count() == 2 * -(-count // 4_096)
