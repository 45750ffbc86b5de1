"""A job that hangs, and jobs on a GPU that fails: what people see and do on the pages and over REST."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import say, state, tick
from tests.webapp.jobs.test_hangs import HANG, STUCK, WAITS, nodes_of, report, running
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.events.queries import story
from webapp.jobs.models import Attempt, Job
from webapp.nodes import liveness
from webapp.nodes.models import Node, Slot
from webapp.scheduling.models import Receipt

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
Browser = Callable[[User], Client]
Api = Callable[..., APIClient]


def test_the_page_of_a_held_job_names_the_stuck_rank_and_offers_a_restart(
    submit: Submit, cast: Cast, browser: Browser
) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    report(job, 0, HANG, STUCK, WAITS)
    page = browser(cast.owner).get(f"/jobs/{job.id}/").content.decode()
    assert "Held: it makes no progress and keeps its slots" in page
    assert "Rank 0 is stuck in read_batch (data.py:42); rank 1 waits in all_reduce." in page
    assert "data.py:42" in page
    assert f"/jobs/{job.id}/restart/" in page
    assert f"/jobs/{job.id}/restart/" not in browser(cast.viewer).get(f"/jobs/{job.id}/").content.decode()
    answer = browser(cast.owner).post(f"/jobs/{job.id}/restart/", follow=True)
    assert "restarts from its last checkpoint" in answer.content.decode()
    assert Job.objects.get(id=job.id).stop == "restart"


def test_a_stack_dump_is_ordered_from_the_page_and_a_second_restart_is_refused_in_words(
    submit: Submit, cast: Cast, browser: Browser
) -> None:
    job = running(submit, num_gpus=2)
    page = browser(cast.owner).get(f"/jobs/{job.id}/").content.decode()
    assert "Dump stacks" in page
    assert "Held" not in page
    browser(cast.owner).post(f"/jobs/{job.id}/stacks/")
    assert "StacksOrdered" in [event.kind for event in story(f"job:{job.id}")]
    refused = browser(cast.owner).post(f"/jobs/{job.id}/restart/")
    assert refused.status_code == 400
    assert "only one that hangs can be restarted" in refused.content.decode()


def test_rest_tells_the_stacks_and_the_hang(submit: Submit, cast: Cast, api: Api) -> None:
    job = running(submit, num_gpus=2, on_hang="hold")
    address = f"/api/v1/training-jobs/{job.id}/stacks"
    assert api(cast.owner).get(address).json() == {"hang": None, "taken_ms": 0, "ranks": []}
    assert api(cast.owner).post(address).status_code == 202
    report(job, 0, HANG, STUCK, WAITS, order=1)
    body = api(cast.owner).get(address).json()
    assert body["hang"]["stage"] == "held"
    assert body["hang"]["step"] == 40
    assert [(stack["rank"], stack["activity"], stack["location"]) for stack in body["ranks"]] == [
        (0, "script", "data.py:42"), (1, "collective", "train.py:9"),
    ]  # fmt: skip
    one = f"/api/v1/training-jobs/{job.id}"
    assert "rank 0 is stuck in read_batch" in api(cast.owner).get(one).json()["hang"].lower()
    assert api(cast.owner).post(f"{one}/restart").status_code == 202
    assert api(cast.owner).get(address).json()["hang"] is None
    assert api(cast.owner).get(one).json()["hang"] is None


def fails(node: Node, slot: int, reading: str) -> None:
    slots = tuple(
        SlotTelemetry(index, readings={reading: 1.0} if index == slot else {}) for index in range(2)
    )
    liveness.heard(node.id, Telemetry(10**12, 0, slots), now_ms())


def test_jobs_on_a_gpu_that_begins_to_fail_save_and_move_and_its_neighbour_stays(
    submit: Submit, cast: Cast
) -> None:
    stays, moves = running(submit, num_gpus=1, name="stays"), running(submit, num_gpus=1, name="moves")
    (node,) = {*nodes_of(stays), *nodes_of(moves)}
    slot = Slot.objects.get(node=node, attempt_id__startswith="att", attempt_id__in=_attempts(moves))
    fails(Node.objects.get(id=node), slot.index, "row_remap_failed")
    tick()
    assert Job.objects.get(id=stays.id).stop == "none"
    row = Job.objects.get(id=moves.id)
    assert row.stop == "preempt"
    assert row.stop_grace_ms >= 60_000
    assert "no spare rows are left" in row.reason
    assert Receipt.objects.get().kind == "device fault"
    say(moves, MemberPhase.EXITED, 0, end=EndReason.STOPPED)
    tick()
    assert state(moves) == "scheduled"
    assert nodes_of(moves) != [node]
    assert [attempt.end for attempt in Attempt.objects.filter(job=moves, number=1)] == ["gpu_failed"]
    assert state(stays) == "running"


def _attempts(job: Job) -> list[str]:
    return list(job.attempts.values_list("id", flat=True))  # type: ignore[attr-defined]


def test_an_operator_reads_what_is_wrong_and_returns_the_slot(
    cluster: list[Node], cast: Cast, browser: Browser, api: Api, admin_api: Callable[[User], APIClient]
) -> None:
    node = cluster[0]
    fails(node, 1, "xid_79")
    tick()
    page = browser(cast.admin).get(f"/nodes/{node.id}/").content.decode()
    assert "XID 79: a GPU that fell off the bus." in page
    assert "1 slot out of service" in browser(cast.owner).get("/nodes/").content.decode()
    assert "Out of service until it is returned." in page
    assert f"/nodes/{node.id}/return/" in page
    assert f"/nodes/{node.id}/return/" not in browser(cast.lead).get(f"/nodes/{node.id}/").content.decode()
    seen = next(row for row in api(cast.owner).get("/api/v1/nodes").json()["results"] if row["id"] == node.id)
    assert seen["slots_out_of_service"] == {"1": "XID 79: a GPU that fell off the bus"}
    (finding,) = api(cast.owner).get(f"/api/v1/nodes/{node.hostname}/health").json()["results"]
    assert (finding["code"], finding["slot"], finding["stage"], finding["severity"]) == (
        "xid_79", 1, "active", "critical",
    )  # fmt: skip
    assert api(cast.lead).post(f"/api/v1/nodes/{node.id}/return").status_code == 403
    browser(cast.admin).post(f"/nodes/{node.id}/return/", {"slot": "1"})
    assert not Slot.objects.exclude(out_of_service="").exists()
    again = admin_api(cast.admin).post(f"/api/v1/nodes/{node.id}/return", {"slot": 1}, format="json")
    assert again.status_code == 400
    assert "is not out of service" in again.json()["detail"]
    for slot in ("-1", "x", "9" * 30):
        assert browser(cast.admin).post(f"/nodes/{node.id}/return/", {"slot": slot}).status_code == 400


def test_the_commands_of_a_remedy_stand_out(cluster: list[Node], cast: Cast, browser: Browser) -> None:
    fails(cluster[0], 1, "xid_48")
    tick()
    page = browser(cast.admin).get(f"/nodes/{cluster[0].id}/").content.decode()
    assert "<code>dcgmi diag -r 3</code>, then return it." in page
    assert "`" not in page.partition('id="findings"')[2].partition("</section>")[0]


def test_a_node_without_findings_says_so(cluster: list[Node], cast: Cast, browser: Browser) -> None:
    page = browser(cast.outsider).get(f"/nodes/{cluster[0].id}/").content.decode()
    assert "Nothing was found wrong with its GPUs, disks or clock." in page


def test_a_node_on_which_three_jobs_cannot_be_started_is_suspected_for_all(submit: Submit) -> None:
    failed = []
    for number in range(3):
        job = running(submit, num_gpus=1, name=f"job-{number}", max_restarts=0)
        failed.append(nodes_of(job)[0])
        say(job, MemberPhase.EXITED, 125, reason="its container engine is away", end=EndReason.LAUNCHER)
    assert len(set(failed)) == 1
    liveness.heard(failed[0], Telemetry(10**12, 0, (SlotTelemetry(0), SlotTelemetry(1))), now_ms())
    tick()
    assert Node.objects.get(id=failed[0]).out_of_service.startswith("3 different jobs failed on it")
    after = running(submit, num_gpus=1, name="after")
    assert nodes_of(after) != [failed[0]]
