"""Orders to running scripts: save now, and the interval where the spec names none."""

from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.checkpointing.live import SHORTEST_MS
from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.node.wanted import AttemptWanted
from platform_core.units import MINUTE_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import cluster, say, submit, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.checkpoints import orders, queries
from webapp.checkpoints.models import Checkpoint, SaveOrders
from webapp.checkpoints.tasks import set_intervals
from webapp.events.queries import story
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.jobs.models import Job, Recovery
from webapp.nodes.models import Node
from webapp.rpc.wanted import wanted_states

__all__ = ["cluster", "submit"]
Submit = Callable[..., Job]
Browser = Callable[[User], Client]
Api = Callable[[User], APIClient]


def running(submit: Submit, **spec: object) -> Job:
    job = submit(num_gpus=4, **spec)
    tick()
    say(job, MemberPhase.RUNNING)
    job.refresh_from_db()
    return job


@pytest.fixture
def job(cluster: list[Node], submit: Submit) -> Job:
    """A gang of two nodes that runs; its spec names no interval."""
    return running(submit, checkpoint={})


def saved(job: Job, step: int, *, began_ms: int | None = None, stored_ms: int = 4_000) -> Checkpoint:
    """A checkpoint that blocked the loop for half a second, and was in the store `stored_ms` after it began."""
    began_ms = now_ms() if began_ms is None else began_ms
    known = {"kind": "checkpoint", "total_bytes": 1, "files": 1, "document": {"files": []}, "created_ms": 1}
    manifest, _ = Manifest.objects.get_or_create(id="man-1", defaults=known)
    row = Checkpoint.objects.create(
        id=f"ckpt-{step}", job=job, attempt=1, step=step, manifest=manifest, saved_ms=began_ms + 1_000,
        began_ms=began_ms, blocking_ms=500, write_ms=1_000, upload_ms=stored_ms - 1_000,
    )  # fmt: skip
    orders.answered(row)
    return row


def wanted(job: Job) -> list[AttemptWanted]:
    return [state.attempts[0] for state in wanted_states(jobs.nodes_of(job.id))]


def kinds(job: Job) -> list[str]:
    return [event.kind for event in story(f"job:{job.id}")]


def test_an_order_to_save_reaches_every_node_until_a_checkpoint_answers_it(job: Job, cast: Cast) -> None:
    revisions = list(Node.objects.order_by("id").values_list("wanted_revision", flat=True))
    orders.save_now(actor_of(cast.owner), job.id)
    assert [order.save_order for order in wanted(job)] == [1, 1]
    assert list(Node.objects.order_by("id").values_list("wanted_revision", flat=True)) != revisions
    saved(job, 7, began_ms=now_ms() - MINUTE_MS)
    assert [order.save_order for order in wanted(job)] == [1, 1], "that one began before the order"
    answer = saved(job, 8)
    assert [order.save_order for order in wanted(job)] == [0, 0]
    assert SaveOrders.objects.get(job=job).answer == answer.id
    event = next(event for event in story(f"job:{job.id}") if event.kind == "SaveOrderAnswered")
    assert f"checkpoint {answer.id} at step 8" in event.cause
    assert orders.save_now(actor_of(cast.owner), job.id).save_order == 2


def test_a_job_that_does_not_run_cannot_save(cluster: list[Node], submit: Submit, cast: Cast) -> None:
    job = submit()
    with pytest.raises(TrainmasterError) as refusal:
        orders.save_now(actor_of(cast.owner), job.id)
    assert refusal.value.sentence.endswith("the job is pending; only a running job can save")


@pytest.mark.parametrize(
    ("who", "code"), [("lead", ""), ("admin", ""), ("member", "not_allowed"), ("outsider", "not_found")]
)
def test_who_may_order_a_checkpoint(who: str, code: str, job: Job, cast: Cast) -> None:
    actor = actor_of(getattr(cast, who))
    if not code:
        assert orders.save_now(actor, job.id).asked_by == actor.username
        return
    with pytest.raises(TrainmasterError) as refusal:
        orders.save_now(actor, job.id)
    assert refusal.value.code == code


def test_the_page_and_rest_order_and_name_the_answer(
    job: Job, cast: Cast, browser: Browser, api: Api
) -> None:
    client, rest = browser(cast.owner), api(cast.owner)
    page = unescape(client.get(f"/jobs/{job.id}/?tab=checkpoints").content.decode())
    assert "Save now" in page
    answer = client.post(f"/jobs/{job.id}/save/", follow=True)
    assert "the script saves when it asks" in unescape(answer.content.decode())
    ordered = rest.post(f"/api/v1/training-jobs/{job.id}/checkpoints")
    assert (ordered.status_code, ordered.json()["order"], ordered.json()["checkpoint"]) == (202, 2, "")
    row = saved(job, 9)
    assert rest.get(f"/api/v1/training-jobs/{job.id}/checkpoints").json()["order"]["checkpoint"] == row.id
    assert "step 9 answered it" in unescape(client.get(f"/jobs/{job.id}/?tab=checkpoints").content.decode())


def test_the_platform_sets_the_interval_from_measured_saves(
    job: Job, cast: Cast, browser: Browser, api: Api
) -> None:
    saved(job, 1)
    assert orders.set_intervals() == 0, "one save is not enough"
    saved(job, 2)
    assert orders.set_intervals() == 1
    row = SaveOrders.objects.get(job=job)
    assert [order.checkpoint_interval_ms for order in wanted(job)] == [row.interval_ms] * 2
    assert row.interval_ms > SHORTEST_MS
    set_ = queries.interval(row)
    assert set_ is not None
    assert (set_.live.bound, set_.measured.blocking_ms, set_.measured.nodes) == ("optimum", 500, 2)
    told = api(cast.owner).get(f"/api/v1/training-jobs/{job.id}/checkpoints").json()["interval"]
    assert (told["interval_ms"], told["inputs"]["stored_ms"]) == (row.interval_ms, 4_000)
    assert "sqrt(2CM)" in told["formula"]
    page = unescape(browser(cast.owner).get(f"/jobs/{job.id}/?tab=checkpoints").content.decode())
    assert "Interval set by the platform" in page
    assert set_.live.sentence in page
    assert 'id="saving-title"' not in page, "one interval is advised, not two"
    set_intervals()
    assert kinds(job).count("CheckpointIntervalSet") == 1, "nothing has changed"


def test_the_restart_time_of_a_job_that_recovered_is_its_mean_time_to_recovery(job: Job) -> None:
    Recovery.objects.create(
        job=job, attempt=1, reason="node_lost", began_ms=1, detect_ms=20_000, stop_ms=1_000, place_ms=2_000,
        fetch_ms=3_000, load_ms=4_000, first_step_ms=0, over=True,
    )  # fmt: skip
    saved(job, 1)
    saved(job, 2)
    measured = orders.measure(job)
    assert measured is not None
    assert measured.restart_ms == 30_000


def test_a_store_that_slows_down_lengthens_the_interval_with_an_event(job: Job) -> None:
    for step in (1, 2, 3):
        saved(job, step, began_ms=now_ms() + step)
    orders.set_intervals()
    for step in (4, 5, 6):
        saved(job, step, began_ms=now_ms() + step, stored_ms=90 * MINUTE_MS)
    assert orders.set_intervals() == 1
    assert SaveOrders.objects.get(job=job).interval_ms == 90 * MINUTE_MS
    event = next(event for event in story(f"job:{job.id}") if event.kind == "CheckpointIntervalLengthened")
    assert "the time until a save is in the store" in event.cause


def test_an_interval_of_the_spec_stays(cluster: list[Node], submit: Submit) -> None:
    job = running(submit, checkpoint={"interval_steps": 50})
    saved(job, 1)
    saved(job, 2)
    assert orders.set_intervals() == 0
    assert [order.checkpoint_interval_ms for order in wanted(job)] == [0, 0]


def test_a_stop_tells_its_deadline_and_reason(job: Job, cast: Cast) -> None:
    nodes = jobs.nodes_of(job.id)
    job_services.cancel(actor_of(cast.owner), job.id, "enough")
    orders_ = [state.attempts[0] for state in wanted_states(nodes)]
    left = [order.stop_deadline_ms - now_ms() for order in orders_]
    assert all(0 < ms <= 30_000 for ms in left)
    assert {order.stop_reason for order in orders_} == {"cancelled by alice: enough"}
