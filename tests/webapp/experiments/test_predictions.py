"""What the planner predicts of a job stands beside what its ranks measure, and the next answers learn from it."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.jobs.spec import parse
from platform_core.parallelism.calibration import Calibration
from platform_core.units import HOUR_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.base.identity import new_id, now_ms
from webapp.experiments import predictions
from webapp.experiments.models import Prediction, Run
from webapp.jobs.models import Attempt, Job
from webapp.nodes.models import Node
from webapp.nodes.speed import cluster_of
from webapp.rpc import spool

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
GPT = {
    "layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "global_batch": 16, "micro_batch": 4, "gated": False,
}  # fmt: skip
QUESTION = {
    "model": {"layers": 12, "hidden": 768, "heads": 12, "gated": False}, "sequence": 1024, "global_batch": 16,
    "gpu_type": "a100-80gb", "gpus": 2,
}  # fmt: skip


@pytest.fixture
def job(submit: Submit) -> Job:
    """On two GPUs of a type whose speed is known, with its shape and layout."""
    job = submit(num_gpus=2, transformer=GPT, parallel={"fsdp": 2})
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.update(gpu_type="a100-80gb", step=100)
    Attempt.objects.update(first_step_ms=1)
    return Job.objects.get(id=job.id)


def report(rank: int, **values: float) -> None:
    named = {f"ranks/{rank}/{name}": value for name, value in values.items()}
    line = {"kind": "system", "at_ms": 1000, "step": 1, "values": named}
    spool.ingest(Attempt.objects.get(), "node-x", json.dumps(line).encode(), rank=rank)


def measure(seconds: float = 0.2, **more: float) -> None:
    for rank in (0, 1):
        report(rank, step_seconds=seconds, **more)


def learn_from(job: Job, *ratios: float) -> None:
    """As if so many more jobs had taken these multiples of their predictions."""
    run = Run.objects.get(id=job.id)
    for ratio in ratios:
        run.pk, run.job = new_id("run"), None
        run.save(force_insert=True)
        Prediction.objects.create(
            run=run, gpu_type="a100-80gb", gpus=2, layout="FSDP 2", predicted_seconds=1.0,
            measured_seconds=ratio, predicted_bytes=100, measured_bytes=None, at_ms=1,
        )  # fmt: skip


def test_a_job_with_shape_and_layout_gets_a_row_without_its_wait_for_data(job: Job) -> None:
    measure(0.2, data_share=0.25, memory_bytes=9e9)
    assert predictions.compare() == 1
    [row] = Prediction.objects.all()
    assert (row.run_id, row.gpus, row.layout) == (job.id, 2, "FSDP 2")
    assert row.measured_seconds == pytest.approx(0.15)
    assert row.measured_bytes == 9_000_000_000
    assert 0.001 < row.predicted_seconds < 0.2


def test_it_follows_a_running_job_and_leaves_one_alone_that_ended_long_ago(job: Job) -> None:
    measure(0.2)
    predictions.compare()
    report(0, step_seconds=0.4)
    report(1, step_seconds=0.4)
    predictions.compare()
    assert Prediction.objects.get().measured_seconds == pytest.approx(0.3, abs=0.11)
    ended = now_ms() - 5_000
    Job.objects.update(finished_ms=ended)
    assert predictions.compare() == 1
    assert Prediction.objects.get().at_ms == ended
    Job.objects.update(finished_ms=now_ms() - 2 * HOUR_MS)
    assert predictions.compare() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_type": "cpu"},
        {"step": 5},
        {"spec": {"parallel": {}}},
        {"spec": {"transformer": {"sequence": 0}}},
    ],
)
def test_nothing_is_compared_where_the_prediction_would_be_a_guess(
    job: Job, change: dict[str, object]
) -> None:
    measure()
    if isinstance(change.get("spec"), dict):
        change = {"spec": job.spec | change["spec"]}
    Job.objects.update(**change)
    assert predictions.compare() == 0


def test_a_job_that_was_resized_has_no_one_mean(job: Job) -> None:
    measure()
    first = Attempt.objects.get()
    Attempt.objects.create(
        id="att-other", job=job, number=2, placed_ms=2, first_step_ms=3, master_address="x", master_port=1
    )
    assert predictions.compare() == 0
    first.refresh_from_db()


def test_the_prediction_is_that_of_the_place_that_the_job_has(job: Job) -> None:
    attempt = Attempt.objects.get()
    [member] = attempt.members.all()
    measure()
    predictions.compare()
    near = Prediction.objects.get().predicted_seconds
    other = Node.objects.exclude(id=member.node_id).first()
    assert other is not None
    Node.objects.update(operator_labels={"oversubscription": "8"}, gpu_type="a100-80gb")
    Node.objects.filter(id=other.id).update(rack="another")
    whole, member.slots = member.slots, member.slots[:1]
    member.save()
    second = attempt.members.create(node=other, rank=1, slots=[0], phase=MemberPhase.RUNNING)
    predictions.compare()
    far = Prediction.objects.get().predicted_seconds
    Node.objects.update(rack="the same")
    predictions.compare()
    assert near < Prediction.objects.get().predicted_seconds < far
    second.delete()  # only the place was moved, not what holds the slots
    member.slots = whole
    member.save()


def test_a_rank_that_has_not_reported_is_waited_for(job: Job) -> None:
    report(0, step_seconds=0.2)
    assert predictions.compare() == 0


def test_the_constant_is_learnt_from_five_jobs_on_and_used_over_rest(
    job: Job, browser: Callable[[User], Client], cast: Cast
) -> None:
    client = browser(cast.viewer)
    before = client.post("/api/v1/parallelism/plans", QUESTION, "application/json").json()
    assert before["calibration"]["factor"] == 1.0
    learn_from(job, 1.2, 1.25, 1.3, 1.35)
    assert predictions.calibration("a100-80gb") == Calibration(rows=4)
    learn_from(job, 9.0)
    after = client.post("/api/v1/parallelism/plans", QUESTION, "application/json").json()
    assert after["calibration"]["factor"] == pytest.approx(1.3)
    assert after["plans"][0]["step_ms"] == pytest.approx(1.3 * before["plans"][0]["step_ms"], rel=0.05)
    assert "learnt from 5 jobs" in after["calibration"]["sentence"]


def test_rest_lists_the_rows_of_ones_teams_and_what_all_teach(
    job: Job, browser: Callable[[User], Client], cast: Cast, outsider: User
) -> None:
    measure(memory_bytes=9e9)
    predictions.compare()
    body = browser(cast.viewer).get("/api/v1/parallelism/predictions?gpu_type=a100-80gb").json()
    assert [row["job"] for row in body["results"]] == [job.id]
    assert body["learnt"][0]["step"]["rows"] == 1
    assert body["learnt"][0]["memory"]["rows"] == 1
    other = browser(outsider).get("/api/v1/parallelism/predictions").json()
    assert (other["results"], other["learnt"]) == ([], body["learnt"])
    assert browser(cast.viewer).get("/api/v1/parallelism/predictions?gpu_type=b200").json()["results"] == []


def test_a_node_says_how_fast_its_network_is(job: Job) -> None:
    Node.objects.update(gpu_type="a100-80gb")
    Node.objects.filter(id=Node.objects.order_by("id").values("id")[:1]).update(
        operator_labels={"network-gbit": "800"}
    )
    cluster = cluster_of("a100-80gb", 2)
    assert cluster is not None
    assert cluster.network_rate * 8 <= 800e9
    assert cluster_of("cpu", 2) is None


def test_the_block_of_a_plan_is_accepted_in_a_job_file(browser: Callable[[User], Client], cast: Cast) -> None:
    body = browser(cast.viewer).post("/api/v1/parallelism/plans", QUESTION, "application/json").json()
    for plan in body["plans"]:
        spec = parse(
            {
                "name": "a", "team": "vision", "command": "python train.py", "gpu_type": "a100-80gb", "num_gpus": 2,
                "parallel": plan["parallel"], "transformer": plan["transformer"],
            }
        )  # fmt: skip
        assert (spec.transformer.hidden, spec.transformer.global_batch) == (768, 16)


def test_the_page_says_what_was_learnt_and_marks_who_is_outside_the_band(
    job: Job, browser: Callable[[User], Client], cast: Cast
) -> None:
    client = browser(cast.viewer)
    empty = client.get("/planner/measured/").content.decode()
    assert "No job has been compared yet" in empty
    learn_from(job, 1.5)
    few = client.get("/planner/measured/").content.decode()
    assert "a100-80gb: 1 of 5 jobs measured, plans are not calibrated yet" in few
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', few, re.DOTALL)
    assert found is not None
    chart = json.loads(found[1])
    ends = next(line["x"] for line in chart["series"] if line["name"] == "as predicted")
    assert any(ends[0] <= tick <= ends[1] for tick in chart["x"]["ticks"])  # the axis of one job has a number
    learn_from(job, *[1.5] * 39, 3.0)
    page = client.get("/planner/measured/?gpu_type=a100-80gb").content.decode()
    assert "steps take 50 % longer than the formulas say" in page
    assert page.count("outside the band") == 1
    assert "40 of 41 jobs lie" in " ".join(page.split())
    assert "-50 %" in page


def test_the_page_shows_no_job_of_other_teams(
    job: Job, browser: Callable[[User], Client], outsider: User
) -> None:
    learn_from(job, *[1.5] * 6)
    page = browser(outsider).get("/planner/measured/?gpu_type=a100-80gb").content.decode()
    assert "steps take 50 % longer" in page
    assert "resnet-baseline" not in page
    assert "No job of your teams" in page
