"""Spare nodes of a running gang: chosen, fetched ahead, used first when a node is lost, given back at the end."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from tests.webapp.checkpoints.test_damage import save, store
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import after_its_pause, say, state, tick
from tests.webapp.world import _manifest
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.datasets import services as datasets
from webapp.jobs import services
from webapp.jobs.models import Attempt, Job, Member, Spare
from webapp.nodes import queries as clusters
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.quotas.queries import team_shares
from webapp.rpc.wanted import manifests, wanted_states

__all__ = ["store"]
pytestmark = pytest.mark.usefixtures("cluster", "store")
Submit = Callable[..., Job]


@pytest.fixture
def gang(submit: Submit) -> Job:
    """On two of four nodes with two slots each, whose team is guaranteed six slots."""
    Quota.objects.update(guaranteed=6, maximum=16)
    job = submit(name="gang", num_gpus=4, spares=1)
    tick()
    say(job, MemberPhase.RUNNING)
    tick()
    return job


def nodes_of(job: Job) -> set[str]:
    newest = Attempt.objects.filter(job=job).order_by("-number")[:1]
    return set(Member.objects.filter(attempt__in=newest).values_list("node_id", flat=True))


def small(submit: Submit, count: int, **changes: Any) -> list[Job]:
    return [submit(name=f"small-{number}", num_gpus=1, **changes) for number in range(count)]


def test_other_jobs_leave_its_slots_free_and_it_counts_as_unused(gang: Job, submit: Submit) -> None:
    spare = Spare.objects.get()
    assert (spare.slots, spare.held) == (2, True)
    assert spare.node_id not in nodes_of(gang)
    others = small(submit, 4)
    tick()
    assert [state(job) for job in others].count("scheduled") == 2
    assert not Member.objects.filter(node=spare.node_id).exists()
    [share] = [each for each in team_shares(now_ms()) if each.team == gang.team_id]
    assert share.used == 4 + 2


def test_beyond_the_guarantee_its_slots_are_for_all(gang: Job, submit: Submit) -> None:
    Quota.objects.update(guaranteed=4)
    others = small(submit, 4)
    tick()
    assert [state(job) for job in others].count("scheduled") == 4
    tick()
    assert not Spare.objects.exists(), "no node is free any more"


def test_a_more_urgent_job_gets_them(gang: Job, submit: Submit, cast: Cast) -> None:
    urgent = submit(name="urgent", num_gpus=4)
    Job.objects.filter(id=urgent.id).update(priority=10)
    tick()
    assert state(urgent) == "scheduled"


def test_the_node_fetches_the_newest_checkpoint_ahead(gang: Job) -> None:
    spare = Spare.objects.get().node_id
    revision = clusters.wanted_revisions([spare])[spare]
    checkpoint = save(gang, 10)
    assert clusters.wanted_revisions([spare])[spare] > revision
    [wanted] = wanted_states([spare])
    [order] = wanted.deployments
    assert order.artifact.manifest_id == checkpoint.manifest_id
    assert (order.deployment_id, order.preheat) == (f"data-{checkpoint.manifest_id}", True)
    assert manifests([(spare, checkpoint.manifest_id)]) != [None]
    newer = save(gang, 20)
    [wanted] = wanted_states([spare])
    assert [order.artifact.manifest_id for order in wanted.deployments] == [newer.manifest_id]


def test_an_agent_of_an_earlier_version_gets_no_order_to_fetch_ahead(gang: Job) -> None:
    spare = Spare.objects.get().node_id
    save(gang, 10)
    Node.objects.filter(id=spare).update(holds_ready_files=False)
    [wanted] = wanted_states([spare])
    assert wanted.deployments == ()


def test_the_node_does_not_fetch_a_dataset_that_is_mounted(gang: Job, cast: Cast) -> None:
    alice = actor_of(cast.owner)
    snapshot = datasets.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train")
    named = {"dataset": snapshot.id, "purpose": "train"}
    for mounted in (False, True):
        Job.objects.filter(id=gang.id).update(spec={**gang.spec, **named, "mount_dataset": mounted})
        [wanted] = wanted_states([Spare.objects.get().node_id])
        fetched = [order.artifact.manifest_id for order in wanted.deployments]
        assert fetched == ([] if mounted else [snapshot.manifest_id])


def test_when_a_node_is_lost_the_gang_goes_on_with_its_spare_before_others(gang: Job, submit: Submit) -> None:
    others = small(submit, 4)
    tick()
    spare = Spare.objects.get().node_id
    lost = sorted(nodes_of(gang))[0]
    kept = nodes_of(gang) - {lost}
    Node.objects.filter(id=lost).update(state="lost")
    Node.objects.filter(id=lost).update(state="lost")
    services.node_lost(lost, now_ms())
    tick()
    say(gang, MemberPhase.EXITED, 143, end=EndReason.STOPPED)
    after_its_pause(gang)
    assert state(gang) == "scheduled"
    assert nodes_of(gang) == {*kept, spare}
    assert [state(job) for job in others].count("scheduled") == 2
    tick()
    assert not Spare.objects.exists(), "it is a node of the gang now, and no other is free"


def test_among_free_nodes_it_goes_to_the_one_that_is_ready(gang: Job) -> None:
    spare = Spare.objects.get().node_id
    lost = sorted(nodes_of(gang))[0]
    kept = nodes_of(gang) - {lost}
    Node.objects.filter(id=lost).update(state="lost")
    Node.objects.filter(id=lost).update(state="lost")
    services.node_lost(lost, now_ms())
    say(gang, MemberPhase.EXITED, 143, end=EndReason.STOPPED)
    after_its_pause(gang)
    assert nodes_of(gang) == {*kept, spare}
    say(gang, MemberPhase.RUNNING)
    tick()
    assert Spare.objects.get().node_id not in {spare, lost}


def test_at_its_end_the_spare_is_given_back(gang: Job) -> None:
    say(gang, MemberPhase.EXITED, 0)
    assert state(gang) == "succeeded"
    tick()
    assert not Spare.objects.exists()


def test_the_page_and_rest_name_it(
    gang: Job, cast: Cast, browser: Callable[..., Client], api: Callable[..., Any]
) -> None:
    spare = Spare.objects.get()
    page = browser(cast.owner).get(f"/jobs/{gang.id}/").content.decode()
    assert "Spare nodes" in page
    assert spare.node.hostname in page
    body = api(cast.owner).get(f"/api/v1/training-jobs/{gang.id}/recoveries").json()
    assert body["spares"] == [
        {"node": spare.node.hostname, "slots": 2, "held": True, "since_ms": spare.since_ms}
    ]
