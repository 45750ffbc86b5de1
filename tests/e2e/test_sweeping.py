"""A sweep of twelve short trials on the running platform, whose worker is killed in the middle."""

import os
import signal
import uuid
from contextlib import suppress

import psutil

from tests.e2e.people import People
from tests.e2e.site import Site, is_alive, until
from trainmaster.sweeps import Sweeps

TRIALS = 12


def stopped(site: Site, job: str) -> bool:
    """Whether it heard of the order to stop; a quick one may have ended before."""
    return any("stopped at step" in line.text for line in site.bob.logs(job, search="stopped").lines)


def worker_of(site: Site) -> psutil.Process:
    """Celery's worker, whose children run the tasks."""
    programs = psutil.Process(site.platform.process.pid).children(recursive=True)
    workers = [program for program in programs if "worker" in words(program)]
    return max(workers, key=lambda program: len(program.children()))


def words(program: psutil.Process) -> list[str]:
    """Its command line; none where it has just ended, as short programs of agents do all the time."""
    with suppress(psutil.NoSuchProcess):
        return program.cmdline()
    return []


def living(worker: psutil.Process) -> set[int]:
    return {child.pid for child in worker.children() if is_alive(child)}


def test_a_sweep_finds_its_best_trial_though_the_worker_is_killed(people: People, site: Site) -> None:
    sweeps = Sweeps(site.bob)
    started = sweeps.start(
        {
            "name": "learning-rates",
            "team": "vision",
            "method": "tpe",
            "seed": 4,
            "space": {"lr": {"type": "log_uniform", "low": 1e-5, "high": 1.0}},
            "objective": {"metric": "loss"},
            "early_stopping": {"rule": "asha", "min_steps": 3, "eta": 2},
            "budget": {"trials": TRIALS},
            "parallel": 4,
            "job": {
                "command": "python searches.py", "code": site.scripts, "strategy": "custom", "gpu_type": "cpu",
                "max_runtime_hours": 1,
            },
        },
        key=str(uuid.uuid4()),
    )  # fmt: skip
    until("trials that have ended", lambda: sum(trial.is_ended for trial in sweeps.trials(started.id)) >= 3)
    worker = worker_of(site)
    victims = living(worker)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    until("other processes of the worker", lambda: len(living(worker) - victims) >= len(victims))

    def ended() -> bool:
        return sweeps.show(started.id).state == "finished"

    until("the end of the sweep", ended)
    trials = sweeps.trials(started.id)
    assert [trial.number for trial in trials] == list(range(1, TRIALS + 1))
    jobs = site.bob.jobs(search="learning-rates-")
    assert sorted(job.id for job in jobs) == sorted(trial.job for trial in trials)
    assert {trial.state for trial in trials} == {"succeeded", "pruned"}
    pruned = [trial.job for trial in trials if trial.state == "pruned"]
    until("the last words of a pruned trial", lambda: any(stopped(site, job) for job in pruned))
    best = sweeps.show(started.id).best
    assert best is not None
    assert best["value"] == min(trial.value for trial in trials if trial.state == "succeeded")
    page = people.come("bob")
    page.goto(f"/sweeps/{started.id}/")
    assert "finished" in page.locator("#sweep-head").inner_text().lower()
    assert page.locator("tbody tr").count() >= TRIALS
