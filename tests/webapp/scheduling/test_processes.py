"""Schedulers that are real processes: several at once, killed, hinted twice or not at all, and without a database.

Whatever happens, no slot is given twice, no gang is half started, and every job ends.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from celery import current_app
from django.core.cache import cache
from django.db import connection, transaction

from platform_core.cluster.invariants import check
from platform_core.jobs.job import MemberPhase
from tests.support.databases import provide
from tests.support.replicas import another_process
from tests.webapp.jobs.conftest import say, state
from webapp.base.identity import now_ms
from webapp.jobs.books import books
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes import liveness
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import Quota

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cluster")]
Submit = Callable[..., Job]
SIZES = (2, 4, 1, 8, 2, 1, 6, 4)  # of eight slots on four nodes
PATIENCE_S = 40

# As workers do it: a task that fails is over, and the next beat brings another.
ROUNDS = """
import django, threading
django.setup()
from django.db import Error, close_old_connections
from webapp.scheduling import services
print("ready", flush=True)
pause = threading.Event()
while True:
    close_old_connections()
    try:
        services.tick()
    except Error as error:
        print("no database", flush=True)
    pause.wait(0.05)
"""
STUCK = """
import django, signal
django.setup()
from webapp.scheduling import services
def stuck(*arguments):
    print("gangs are placed", flush=True)
    signal.pause()
services.predictions.started = stuck
services.tick()
"""
WORKER = ("-m", "celery", "--quiet", "-A", "webapp.config", "worker", "--pool", "solo", "--loglevel", "ERROR")


@pytest.fixture
def jobs(submit: Submit) -> list[Job]:
    Quota.objects.update(maximum=100)
    return [submit(name=f"job-{number}", num_gpus=size) for number, size in enumerate(SIZES)]


@pytest.fixture
def scheduler() -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    """Starts one more of them; it makes one round after the other."""
    with ExitStack() as stack:

        def start() -> "subprocess.Popen[str]":
            process = stack.enter_context(another_process("-c", ROUNDS))
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        yield start


def go_on(jobs: list[Job], done: Callable[[], bool]) -> None:
    """The agents do what they are told, until that is so; the books are right at each moment."""
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    nodes = list(Node.objects.values_list("id", flat=True))
    while not done():
        for node_id in nodes:
            liveness.saw(node_id, now_ms())
        assert time.monotonic() < deadline, [state(job) for job in jobs]
        with transaction.atomic():
            connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert check(books()) == ()
            placed = list(Job.objects.filter(state="scheduled"))
            for job in placed:
                members = Member.objects.filter(attempt__job=job, attempt__number=job.attempt)
                assert sum(len(member.slots) for member in members) == job.num_gpus, "a gang is whole"
        for job in placed:
            say(job, MemberPhase.RUNNING)
            say(job, MemberPhase.EXITED, 0)
        pause.wait(0.05)


def ended(jobs: list[Job], how_many: int = len(SIZES)) -> Callable[[], bool]:
    ids = [job.id for job in jobs]
    return lambda: Job.objects.filter(id__in=ids, state="succeeded").count() >= how_many


def all_began_once(jobs: list[Job]) -> bool:
    free = not Slot.objects.filter(attempt_id__isnull=False).exists()
    return free and Attempt.objects.filter(job__in=jobs).count() == len(jobs)


def test_three_schedulers_at_once_start_each_job_once(
    jobs: list[Job], scheduler: Callable[[], "subprocess.Popen[str]"]
) -> None:
    for _ in range(3):
        scheduler()
    go_on(jobs, ended(jobs))
    assert all_began_once(jobs)


def test_schedulers_killed_again_and_again_lose_nothing(
    jobs: list[Job], scheduler: Callable[[], "subprocess.Popen[str]"]
) -> None:
    one, other = scheduler(), scheduler()
    for done in (1, 3, 5):
        go_on(jobs, ended(jobs, done))
        one.kill()
        one.wait()
        one, other = other, scheduler()
    go_on(jobs, ended(jobs))
    assert all_began_once(jobs)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_leader_that_is_gone_before_it_has_committed_has_started_nobody_and_is_replaced(
    jobs: list[Job], scheduler: Callable[[], "subprocess.Popen[str]"], end: signal.Signals
) -> None:
    with another_process("-c", STUCK) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == "gangs are placed\n"
        leader.send_signal(end)
        assert {state(job) for job in jobs} == {"pending"}
        assert not Attempt.objects.exists()
        scheduler()
        go_on(jobs, ended(jobs, 1))
        leader.send_signal(signal.SIGCONT)  # one that wakes up finds its transaction gone
        go_on(jobs, ended(jobs))
    assert all_began_once(jobs)


def test_a_database_that_starts_again_costs_rounds_and_no_job(
    jobs: list[Job], scheduler: Callable[[], "subprocess.Popen[str]"]
) -> None:
    both = [scheduler(), scheduler()]
    go_on(jobs, ended(jobs, 2))
    connection.close()
    database = provide()
    database.stop()
    for each in both:
        assert each.stdout is not None
        assert each.stdout.readline() == "no database\n"
    database.start()
    go_on(jobs, ended(jobs))
    assert all_began_once(jobs)


def test_hints_that_come_thirty_times_or_not_at_all(submit: Submit) -> None:
    Quota.objects.update(maximum=100)
    with another_process(*WORKER), another_process(*WORKER):
        cache.add("scheduling:asked", 1, timeout=60)  # so the hints of these submissions are lost
        jobs = [submit(name=f"job-{number}", num_gpus=size) for number, size in enumerate(SIZES)]
        for _ in range(30):
            current_app.send_task("scheduling.tick", retry=False)
        go_on(jobs, ended(jobs, 1))
        cache.add("scheduling:asked", 1, timeout=60)
        late = submit(name="late", num_gpus=8)
        current_app.send_task("scheduling.tick", retry=False)  # as the beat does
        go_on([*jobs, late], ended([*jobs, late], len(SIZES) + 1))
    assert all_began_once([*jobs, late])
