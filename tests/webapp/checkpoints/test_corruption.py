"""Ranks of a job disagree: its checkpoints since the last agreement are distrusted, and a node leaves service."""

import json
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.checkpoints.test_damage import again, save, store
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import after_its_pause, say, tick
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.checkpoints.corruption import go_back
from webapp.checkpoints.models import Checkpoint
from webapp.events.models import Event
from webapp.jobs import queries as job_queries
from webapp.jobs.corruption import Found, suspect
from webapp.jobs.models import Attempt, Corruption, Job, Member
from webapp.nodes import liveness
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.rpc import spool

__all__ = ["store"]
pytestmark = pytest.mark.usefixtures("cluster", "store")
Submit = Callable[..., Job]


def running(submit: Submit, **changes: Any) -> Job:
    """On two nodes with two ranks each."""
    job = submit(num_gpus=4, corruption_check={"every_steps": 10}, **changes)
    start(job)
    return again(job)


def start(job: Job) -> None:
    tick()
    say(job, MemberPhase.RUNNING)


def newest(job: Job) -> Attempt:
    return Attempt.objects.get(job=job, number=again(job).attempt)


def nodes_of(job: Job) -> list[str]:
    return list(Member.objects.filter(attempt=newest(job)).order_by("rank").values_list("node_id", flat=True))


def tell(job: Job, kind: str, step: int, **fields: Any) -> None:
    line = {"kind": kind, "at_ms": now_ms(), "step": step, **fields}
    spool.ingest(newest(job), nodes_of(job)[0], json.dumps(line).encode() + b"\n")


def everybody_is_heard() -> None:
    for node in Node.objects.all():
        liveness.heard(node.id, Telemetry(10**12, 0, (SlotTelemetry(0), SlotTelemetry(1))), now_ms())


def ends(job: Job) -> None:
    say(job, MemberPhase.EXITED, 1, end=EndReason.SILENT_CORRUPTION)


def out_of_service() -> set[str]:
    return set(Node.objects.exclude(out_of_service="").values_list("id", flat=True))


def test_the_job_goes_back_to_the_last_agreement_and_the_guilty_node_leaves_service(submit: Submit) -> None:
    job = running(submit)
    kept = save(job, 10)
    tell(job, "corruption_agreed", 10)
    doubtful = [save(job, 15), save(job, 19)]
    bad = nodes_of(job)[1]
    everybody_is_heard()
    tell(job, "corruption_found", 20, guilty=[3], suspects=[])
    tell(job, "corruption_found", 20, guilty=[3], suspects=[])
    assert again(job).stop == "restart"
    assert again(job).latest_checkpoint == kept.id
    assert {row.id for row in Checkpoint.objects.exclude(damaged="")} == {row.id for row in doubtful}
    ends(job)
    tick()
    assert out_of_service() == {bad}
    assert again(job).state == "scheduled"
    assert bad not in nodes_of(job)
    assert newest(job).resume_checkpoint == kept.id
    told = Event.objects.get(kind="Corrupted", subject_id=job.id)
    hostname = Node.objects.get(id=bad).hostname
    assert (
        told.cause
        == f"its ranks computed different results at step 20: rank 3 on {hostname} differs from the others"
    )


def test_what_is_saved_late_is_distrusted_as_well(submit: Submit) -> None:
    job = running(submit)
    tell(job, "corruption_agreed", 10)
    tell(job, "corruption_found", 20, guilty=[0], suspects=[])
    late, before = save(job, 18), save(job, 10)
    assert late.damaged.startswith("its ranks computed different results at step 20")
    assert before.damaged == ""
    assert again(job).latest_checkpoint == before.id


@pytest.mark.django_db(transaction=True)
def test_what_is_registered_at_the_very_moment_is_distrusted_as_well(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference is told between the look at what speaks against a checkpoint and the end of its transaction."""
    job = running(submit)
    before = save(job, 10)
    tell(job, "corruption_agreed", 10)
    attempt, found = again(job).attempt, Found(step=20, guilty=[3], suspects=[], at_ms=now_ms())

    def told() -> None:
        try:
            go_back(job.id, attempt, found, "system")
        finally:
            connection.close()

    telling = Thread(target=told)

    def suspect_and_be_told(job_id: str, number: int, step: int) -> str:
        why = suspect(job_id, number, step)
        telling.start()
        telling.join(1)  # it waits for us, or it would not see what we have not committed
        return why

    monkeypatch.setattr(job_queries, "suspect", suspect_and_be_told)
    late = save(job, 15)
    telling.join(10)
    assert Checkpoint.objects.get(id=late.id).damaged.startswith(
        "its ranks computed different results at step 20"
    )
    assert again(job).latest_checkpoint == before.id


def test_a_later_attempt_that_agrees_vouches_for_what_it_began_from(submit: Submit) -> None:
    job = running(submit)
    first = save(job, 15)
    say(job, MemberPhase.EXITED, 1)
    after_its_pause(job)
    say(job, MemberPhase.RUNNING)
    tell(job, "corruption_agreed", 20)
    second = save(job, 25, attempt=2)
    tell(job, "corruption_found", 30, guilty=[1], suspects=[])
    assert Checkpoint.objects.get(id=first.id).damaged == ""
    assert Checkpoint.objects.get(id=second.id).damaged != ""
    assert again(job).latest_checkpoint == first.id


def test_of_two_suspected_nodes_the_one_that_agrees_with_others_is_cleared(
    submit: Submit, cast: Cast
) -> None:
    job = running(submit)
    suspects = set(nodes_of(job))
    unused = Node.objects.exclude(id__in=suspects).order_by("id").first()
    clusters.drain(actor_of(cast.admin), unused.id)  # so that the other suspect is needed
    everybody_is_heard()
    tell(job, "corruption_found", 10, guilty=[], suspects=[0, 1, 2, 3])
    assert Corruption.objects.get().nodes == []
    ends(job)
    tick()
    [away] = out_of_service()  # one of so few: the other nodes are needed
    assert away in suspects
    start(job)
    assert suspects & set(nodes_of(job)) == suspects - {away}
    tell(job, "corruption_agreed", 10)
    tick()
    row = Node.objects.get(id=away)
    assert row.out_of_service.endswith("; it computed other results than the other nodes of a job")


def test_ranks_of_one_node_that_disagree_accuse_that_node(submit: Submit) -> None:
    job = running(submit)
    second = nodes_of(job)[1]
    tell(job, "corruption_found", 10, guilty=[], suspects=[2, 3])
    assert Corruption.objects.get().nodes == [second]


def test_an_operator_returns_the_node_and_it_stays(submit: Submit, cast: Cast) -> None:
    job = running(submit)
    [_, bad] = nodes_of(job)
    everybody_is_heard()
    tell(job, "corruption_found", 10, guilty=[2], suspects=[])
    tick()
    assert out_of_service() == {bad}
    clusters.return_to_service(actor_of(cast.admin), bad)
    tick()
    assert out_of_service() == set()


def test_ranks_that_do_not_exist_accuse_nobody_and_the_job_goes_back(submit: Submit) -> None:
    job = running(submit)
    save(job, 5)
    tell(job, "corruption_found", 10, guilty=[99], suspects=[])
    assert Corruption.objects.get().nodes == []
    assert again(job).latest_checkpoint == ""


def test_an_alarm_stands_in_the_timeline(submit: Submit) -> None:
    job = running(submit)
    tell(job, "training_alarm", 1_300, name="loss", alarm="spike", value=40.0, limit=3.5)
    tell(job, "training_alarm", 1_301, name="grad_norm", alarm="not_finite", value=None, limit=3.5)
    tell(job, "training_alarm", 1_302, name="grad_norm", alarm="unheard of", value=None, limit=3.5)
    assert [event.cause for event in Event.objects.filter(kind="TrainingAlarm").order_by("id")] == [
        "loss is 40 at step 1,300; up to 3.5 is usual",
        "grad_norm is not finite at step 1,301",
    ]


def test_the_page_and_rest_show_the_last_agreement_and_what_was_found(
    submit: Submit, cast: Cast, browser: Callable[..., Client], api: Callable[..., Any]
) -> None:
    job = running(submit)
    address = f"/jobs/{job.id}/?tab=timeline"
    assert "No comparison of its ranks so far" in browser(cast.owner).get(address).content.decode()
    tell(job, "corruption_agreed", 1_000)
    assert "Agreed at step 1,000" in browser(cast.owner).get(address).content.decode()
    tell(job, "corruption_found", 1_010, guilty=[3], suspects=[])
    page = browser(cast.owner).get(address).content.decode()
    assert "differs from the others" in page
    body = api(cast.owner).get(f"/api/v1/training-jobs/{job.id}/recoveries").json()
    assert body["corruption"]["agreed_step"] == 1_000
    [found] = body["corruption"]["found"]
    assert (found["attempt"], found["step"], found["suspects"]) == (1, 1_010, [])
    assert found["nodes"] == [Node.objects.get(id=nodes_of(job)[1]).hostname]
