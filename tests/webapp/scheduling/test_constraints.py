"""A job goes where its description lets it, and is told what keeps it from the other nodes."""

from collections.abc import Callable
from typing import Any

from django.test import Client

from tests.webapp.jobs.conftest import SPEC, state, tick
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes import services as clusters
from webapp.nodes.models import Node

Browser = Callable[[User], Client]


def submit(who: User, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "num_gpus": 2, **changes})[0]


def test_a_job_goes_where_the_label_is(cluster: list[Node], owner: User) -> None:
    clusters.mark(SYSTEM, cluster[2].id, labels={"nvlink": "yes"})
    job = submit(owner, node_labels={"nvlink": "yes"})
    tick()
    assert Member.objects.get(attempt=Attempt.objects.get(job=job)).node_id == cluster[2].id


def test_a_tainted_cluster_takes_only_who_tolerates_it(cluster: list[Node], owner: User) -> None:
    for each in cluster:
        clusters.mark(SYSTEM, each.id, taints=["lab"])
    kept_away, tolerant = submit(owner), submit(owner, tolerations=["lab"])
    tick()
    assert state(tolerant) == "scheduled"
    waiting = Job.objects.get(id=kept_away.id)
    assert waiting.wait_code == "cannot_ever_fit"
    assert "the taint lab, which it does not tolerate" in waiting.wait_sentence


def test_the_form_says_beforehand_what_would_bind(cluster: list[Node], owner: User, browser: Browser) -> None:
    form = {**SPEC, "num_gpus": "2", "max_runtime_hours": "1", "node_labels": "nvlink=yes"}
    told = browser(owner).post("/jobs/check/", form).content.decode()
    assert "not the label nvlink=yes" in told


def test_a_clone_keeps_its_conditions(cluster: list[Node], owner: User, browser: Browser) -> None:
    job = submit(
        owner,
        node_labels={"zone": "a"},
        tolerations=["lab"],
        max_racks=2,
        excluded_nodes=["node-9", "node-7"],
    )
    page = browser(owner).get(f"/jobs/submit/?clone={job.id}").content.decode()
    for shown in ("zone=a", 'value="lab"', 'value="2"', 'value="node-7 node-9"'):
        assert shown in page
