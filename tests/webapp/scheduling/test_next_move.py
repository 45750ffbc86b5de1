"""The next move against fragmentation, as the map shows it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job
from webapp.nodes.models import Slot
from webapp.quotas.models import Quota

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]
ADDRESS = "/queue/next-move/?block=move"


def look(client: Client) -> str:
    cache.clear()
    return client.get(ADDRESS, headers={"HX-Request": "true"}).content.decode()


def submit(who: User, name: str, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "name": name, "preemptible": True, **changes})[0]


@pytest.fixture
def in_pieces(owner: User) -> tuple[Job, Job]:
    """Of each node of two one slot is held for an hour by a small job; a gang of two wants one node."""
    Quota.objects.update(maximum=16)
    small = [submit(owner, f"old-{number}", num_gpus=1, max_runtime_hours=100) for number in range(8)]
    tick()
    for job in small:
        say(job, MemberPhase.RUNNING)
    for slot in Slot.objects.filter(index=1):
        say(Job.objects.get(id=Attempt.objects.get(id=slot.attempt_id).job_id), MemberPhase.EXITED, 0)
    Job.objects.update(started_ms=now_ms() - HOUR_MS)
    left = Job.objects.get(id=Attempt.objects.get(id=Slot.objects.filter(index=0)[0].attempt_id).job_id)
    return left, submit(owner, "gang", num_gpus=2, max_runtime_hours=100)


def test_nobody_waits(browser: Browser, member: User) -> None:
    assert "No job waits, so no job needs to migrate." in look(browser(member))


def test_the_move_and_what_it_costs_are_told_to_the_team(
    in_pieces: tuple[Job, Job], browser: Browser, member: User, settings: Any
) -> None:
    settings.SCHEDULING_PREEMPTION = False
    told = look(browser(member))
    assert "Would migrate now</b> if migration were on," in told
    assert f'<a href="/jobs/{in_pieces[1].id}/">{in_pieces[1].name}</a>' in told
    assert f'<a href="/jobs/{in_pieces[0].id}/">{in_pieces[0].name}</a>' in told
    assert "GPU-seconds" in told
    assert re.search('saves and starts again on <span class="nowrap">node-[0-3]</span>', told)


def test_others_learn_whose_jobs_they_are_and_no_more(
    in_pieces: tuple[Job, Job], browser: Browser, outsider: User
) -> None:
    told = look(browser(outsider))
    assert "a job of vision" in told
    assert in_pieces[0].id not in told
    assert in_pieces[1].id not in told
    assert f">{in_pieces[1].name}<" not in told
