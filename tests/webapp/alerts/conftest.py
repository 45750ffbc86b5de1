from collections.abc import Callable

import pytest

from platform_core.jobs.job import MemberPhase
from tests.webapp.alerts.proving import Clock
from tests.webapp.jobs.conftest import cluster, say, submit, tick
from webapp.jobs.models import Job
from webapp.nodes.models import Node

__all__ = ["cluster", "submit"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(cluster: list[Node], submit: Callable[..., Job]) -> Job:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    return Job.objects.get(id=job.id)
