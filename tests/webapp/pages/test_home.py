"""Each role's home: own work and headroom for members, the members' load for leads, the cluster for admins."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC, cluster, say, tick
from webapp.accounts import services as accounts
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.quotas.models import Quota

__all__ = ["cluster"]

Browse = Callable[[User], Client]


def submit(who: User, name: str, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "name": name, **changes})[0]


def fail(job: Job) -> None:
    say(job, MemberPhase.EXITED, 1, reason="CUDA out of memory", end=EndReason.SCRIPT_ERROR)


def test_a_member_reads_own_work_in_one_sentence(
    cluster: list[Node], owner: User, member: User, browser: Browse
) -> None:
    submit(owner, "first", num_gpus=8)
    tick()
    submit(owner, "second", num_gpus=8)
    submit(member, "of-bob", num_gpus=8)
    tick()
    page = browser(owner).get("/")
    text = page.content.decode()
    assert '<h1 class="headline">1 running, 1 pending</h1>' in text
    assert [line.name for line in page.context["jobs"]()] == ["first", "second"]
    assert page.context["jobs"]()[1].reason
    assert "of-bob" not in text


def test_a_failure_stands_there_with_its_cause(cluster: list[Node], owner: User, browser: Browse) -> None:
    job = submit(owner, "broken", num_gpus=8, max_restarts=0)
    tick()
    fail(job)
    page = browser(owner).get("/")
    assert page.context["sentence"]() == "Nothing running or pending, 1 failed in the last 24 h"
    [failure] = page.context["failures"]()
    assert (failure.name, "out of memory" in failure.cause) == ("broken", True)
    assert "out of memory" in page.content.decode()


def test_a_recent_run_shows_its_result(cluster: list[Node], owner: User, browser: Browse) -> None:
    job = submit(owner, "trained", num_gpus=8)
    tick()
    say(job, MemberPhase.RUNNING)
    for step, loss in enumerate((2.0, 0.5, 0.7), start=1):
        experiments.ingest(job.id, 1, [Point("val_loss", step, loss, now_ms())])
    say(job, MemberPhase.EXITED, 0)
    [run] = browser(owner).get("/").context["runs"]()
    assert (run.name, run.metric, run.rule, run.value) == ("trained", "val_loss", "lowest", 0.5)


@pytest.mark.parametrize(
    ("held", "expected"),
    [(2, (2, 0, 6)), (6, (6, 2, 2)), (8, (8, 4, 0))],
)
def test_headroom_is_what_the_team_could_get_now(
    held: int, expected: tuple[int, int, int], cluster: list[Node], owner: User, browser: Browse
) -> None:
    submit(owner, "holder", num_gpus=held)
    tick()
    [headroom] = browser(owner).get("/").context["headroom"]()
    assert (headroom.held, headroom.borrowed, headroom.free) == expected
    assert (headroom.guaranteed, headroom.maximum) == (4, 8)


def test_slots_that_nobody_has_are_no_headroom(
    vision: Team, quota: Callable[..., Quota], owner: User, browser: Browse
) -> None:
    quota(vision, "a100-80gb", guaranteed=4, maximum=8)
    [headroom] = browser(owner).get("/").context["headroom"]()
    assert (headroom.free, headroom.noun) == (0, "GPU")


def test_a_lead_sees_the_load_of_each_member(
    cluster: list[Node], owner: User, member: User, lead: User, browser: Browse
) -> None:
    submit(owner, "first", num_gpus=8)
    tick()
    submit(member, "second", num_gpus=4)
    tick()
    page = browser(lead).get("/")
    load = {one.user: (one.running_gpus, one.pending_gpus) for one in page.context["members"]()}
    assert load == {"alice": (8, 0), "bob": (0, 4)}
    assert "<h2>Members</h2>" in page.content.decode()
    assert "<h2>Members</h2>" not in browser(owner).get("/").content.decode()


def test_a_new_user_reads_three_ways_to_submit_a_job(cast: Cast, browser: Browse) -> None:
    text = browser(cast.owner).get("/").content.decode()
    assert all(way in text for way in ("In the browser", "From a terminal", "Over the REST API"))
    assert "without it no job starts" in text


def test_somebody_without_a_team_reads_whom_to_ask(db: None, browser: Browse) -> None:
    newcomer = accounts.create_user(SYSTEM, "newcomer", "password of newcomer")
    text = browser(newcomer).get("/").content.decode()
    assert "You belong to no team yet." in text


def test_an_admin_comes_home_to_the_cluster_and_has_own_work_beside_it(
    cluster: list[Node], admin: User, browser: Browse
) -> None:
    page = browser(admin)
    home = page.get("/").content.decode()
    assert '<h1 class="headline">0 of 8 slots in use</h1>' in home
    assert '<a href="/cluster/" aria-current="page">Cluster</a>' in home
    assert "Submit your first job" in page.get("/work/").content.decode()


def test_a_job_of_a_team_that_one_has_left_is_not_shown(
    cluster: list[Node], owner: User, browser: Browse
) -> None:
    submit(owner, "secret-name", num_gpus=8)
    owner.membership_set.all().delete()
    assert "secret-name" not in browser(owner).get("/").content.decode()
