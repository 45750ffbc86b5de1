"""Each task has a queue and a time limit, each queue a program, and what the platform lives by waits for nobody."""

import signal
from types import SimpleNamespace

import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from webapp.base import pulse
from webapp.config import celery, queues
from webapp.config.beat import beat_schedule
from webapp.config.queues import TASKS, Queue
from webapp.operations import programs

LIFELINE = {Queue.SCHEDULING, Queue.COORDINATION}


def taken_by(command: tuple[str, ...]) -> list[str]:
    return command[command.index("--queues") + 1].split(",")


def test_each_registered_task_has_a_queue_and_limits() -> None:
    celery.app.loader.import_default_modules()
    celery.app.finalize()
    registered = {name for name in celery.app.tasks if not name.startswith("celery.")}
    assert registered == set(TASKS)
    for name, (queue, soft) in TASKS.items():
        task = celery.app.tasks[name]
        assert celery.app.amqp.router.route({}, name)["queue"].name == queue
        assert (task.soft_time_limit, task.time_limit) == (soft, soft + queues.HARD_AFTER)


def test_the_clock_asks_for_known_tasks_only() -> None:
    assert {entry["task"] for entry in beat_schedule(2).values()} <= set(TASKS)


def test_each_queue_is_taken_by_one_program() -> None:
    taken = [
        queue
        for each in (programs.SCHEDULER, programs.COORDINATOR, programs.WORKER)
        for queue in taken_by(each)
    ]
    assert sorted(taken) == sorted(Queue)


def test_the_round_of_the_scheduler_is_alone() -> None:
    assert taken_by(programs.SCHEDULER) == [Queue.SCHEDULING]
    assert [name for name, (queue, _) in TASKS.items() if queue is Queue.SCHEDULING] == ["scheduling.tick"]
    assert not LIFELINE & set(taken_by(programs.WORKER))


def test_the_pulse_knows_the_programs_by_their_queues() -> None:
    assert set(pulse.OF_QUEUES) == LIFELINE
    assert pulse.UNCOUNTED == Queue.SOURCES


@pytest.mark.parametrize(
    ("queue", "program"),
    [("scheduling", "scheduler"), ("coordination", "coordinator"), ("notices", "worker")],
)
def test_a_task_is_the_pulse_of_its_program(queue: str, program: str) -> None:
    request = SimpleNamespace(delivery_info={"routing_key": queue}, sent_ms=0)
    pulse.beat(SimpleNamespace(request=request))
    assert list(pulse.last()) == [program]
    assert pulse.last()[program].lag_ms > 0


def test_waiting_for_a_source_is_no_lag() -> None:
    pulse.beat(SimpleNamespace(request=SimpleNamespace(delivery_info={"routing_key": "sources"}, sent_ms=0)))
    assert pulse.last() == {}


def test_a_task_in_a_program_without_children_is_told_to_end_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(celery, "AGAIN_SECONDS", 0.01)
    before = signal.signal(signal.SIGALRM, celery._over)
    try:
        celery._limit(SimpleNamespace(soft_time_limit=0.01))
        for _ in range(2):
            with pytest.raises(SoftTimeLimitExceeded):
                signal.pause()
        celery._unlimited()
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
