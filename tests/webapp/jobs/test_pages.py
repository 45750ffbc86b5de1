"""The job pages and their REST face, as people of the team and outsiders meet them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.models import User
from webapp.jobs.models import Job
from webapp.jobs.queries import calling_by_names
from webapp.nodes.models import Node

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
FORM = {
    "name": "from the form",
    "team": "vision",
    "command": "python -m train",
    "num_gpus": "2",
    "gpu_type": "cpu",
}
HTMX = {"headers": {"HX-Request": "true"}}


def test_the_form_submits_a_job_and_shows_it(browser: Callable[[User], Client], owner: User) -> None:
    answer = browser(owner).post("/jobs/submit/", FORM)
    job = Job.objects.get()
    assert answer.headers["Location"] == f"/jobs/{job.id}/"
    page = browser(owner).get(f"/jobs/{job.id}/").content.decode()
    assert "from the form" in page
    assert "<strong>Pending</strong>" in page


def test_the_form_says_all_problems_beside_their_fields(
    browser: Callable[[User], Client], owner: User
) -> None:
    answer = browser(owner).post("/jobs/submit/", {**FORM, "name": "", "priority": "101", "num_gpus": "none"})
    assert answer.status_code == 422
    assert not Job.objects.exists()
    assert answer.content.decode().count('class="problem"') >= 3


def test_a_number_over_the_quota_is_marked_and_tells_why(
    browser: Callable[[User], Client], owner: User
) -> None:
    page = browser(owner).post("/jobs/submit/", {**FORM, "num_gpus": "99"}).content.decode()
    assert '<p class="problem" id="problem-num_gpus">Would exceed quota: 99/8 slots of cpu.</p>' in page
    assert '<a href="#id-num_gpus">Would exceed quota: 99/8 slots of cpu.</a>' in page


def test_the_panel_tells_quota_cost_and_wait_at_each_change(
    browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    checking = browser(owner)
    panel = checking.post("/jobs/check/?block=check", FORM, headers={"HX-Request": "true"}).content.decode()
    assert "It would start at once" in panel
    assert "8 of 8" in panel
    submit(num_gpus=8)
    tick()
    panel = checking.post("/jobs/check/?block=check", FORM, headers={"HX-Request": "true"}).content.decode()
    assert "It would wait" in panel
    panel = checking.post(
        "/jobs/check/?block=check", {**FORM, "num_gpus": "12"}, headers={"HX-Request": "true"}
    )
    assert "12/8" in panel.content.decode()


def test_a_clone_comes_with_everything_filled_in(
    browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    job = submit(hyperparameters={"lr": 0.001}, tags=["baseline"])
    page = browser(owner).get(f"/jobs/submit/?clone={job.id}").content.decode()
    for text in ("lr=0.001", "baseline", "train.py --steps 10"):
        assert text in page


def test_an_admin_of_no_team_is_told_what_a_teams_job_would_meet(
    browser: Callable[[User], Client], admin: User
) -> None:
    check = browser(admin).post("/jobs/check/?block=check", FORM)
    assert (check.status_code, "It would start at once" in check.content.decode()) == (200, True)
    page = browser(admin).get("/jobs/submit/").content.decode()
    assert '<option value="vision">vision</option>' in page


def test_who_is_in_no_team_learns_nothing_of_one_from_the_check(
    browser: Callable[[User], Client], outsider: User
) -> None:
    check = browser(outsider).post("/jobs/check/?block=check", FORM)
    assert (check.status_code, "no team vision" in check.content.decode()) == (200, True)


@pytest.mark.parametrize("tab", ["overview", "logs", "timeline", "checkpoints", "spec"])
def test_every_tab_of_a_running_job_is_shown(
    tab: str, browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    job = submit()
    tick()
    say(job, MemberPhase.RUNNING)
    assert browser(owner).get(f"/jobs/{job.id}/?tab={tab}").status_code == 200


@pytest.mark.parametrize(
    "address", ["/", "/jobs/", "/experiments/", "/models/", "/deployments/", "/audit/", "/search/?q=b"]
)
def test_every_list_is_shown_empty_and_with_data(
    address: str, browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    assert browser(owner).get(address).status_code == 200
    submit()
    tick()
    assert browser(owner).get(address).status_code == 200


def test_an_outsider_sees_nothing_of_it(
    browser: Callable[[User], Client], api: Callable[..., APIClient], outsider: User, submit: Submit
) -> None:
    job = submit()
    assert browser(outsider).get(f"/jobs/{job.id}/").status_code == 404
    assert job.name not in browser(outsider).get("/jobs/").content.decode()
    told = api(outsider, "nlp").get(f"/api/v1/training-jobs/{job.id}")
    assert told.status_code == 404
    assert job.name not in told.content.decode()


def test_rest_submits_lists_pages_and_cancels(api: Callable[..., APIClient], owner: User) -> None:
    client = api(owner)
    ids = [client.post("/api/v1/training-jobs", SPEC, format="json").json()["id"] for _ in range(3)]
    first = client.get("/api/v1/training-jobs?limit=2").json()
    rest = client.get(f"/api/v1/training-jobs?limit=2&cursor={first['next']}").json()
    assert [job["id"] for job in first["results"] + rest["results"]] == ids[::-1]
    assert rest["next"] is None
    assert client.post(f"/api/v1/training-jobs/{ids[0]}/cancel").json()["state"] == "cancelled"
    problem = client.post(f"/api/v1/training-jobs/{ids[0]}/cancel")
    assert problem.status_code == 409
    assert problem.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=runing", "state is not valid: 'runing' is none of active, waiting, finished, pending"),
        ("cursor=zzz", "cursor is not valid: "),
    ],
)
def test_a_filter_that_cannot_be_meant_is_not_an_empty_list(
    api: Callable[..., APIClient], owner: User, query: str, told: str
) -> None:
    answer = api(owner).get(f"/api/v1/training-jobs?{query}")
    assert answer.status_code == 400
    assert told in answer.json()["detail"]


def test_rest_refuses_a_bad_job_with_every_problem(api: Callable[..., APIClient], owner: User) -> None:
    answer = api(owner).post(
        "/api/v1/training-jobs", {"team": "vision", "num_gpus": 0, "gpuType": "cpu"}, format="json"
    )
    assert answer.status_code == 422
    assert {"name", "command", "num_gpus", "gpuType"} <= {one["field"] for one in answer.json()["problems"]}


def test_the_same_key_over_rest_answers_with_the_same_job(api: Callable[..., APIClient], owner: User) -> None:
    client = api(owner)
    first = client.post("/api/v1/training-jobs", SPEC, format="json", headers={"Idempotency-Key": "a"})
    again = client.post("/api/v1/training-jobs", SPEC, format="json", headers={"Idempotency-Key": "a"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_whom_a_job_waits_for_is_called_by_its_name_to_those_who_may_see_it(
    browser: Callable[[User], Client], owner: User, outsider: User, submit: Submit
) -> None:
    holder = submit(name="the-holder", num_gpus=6)
    tick()
    waiting = submit(name="the-waiting", num_gpus=4)
    tick()
    for address in ("/", "/queue/", "/jobs/", f"/jobs/{waiting.id}/"):
        assert "for the-holder" in browser(owner).get(address).content.decode(), address
    checked = (
        browser(owner).post("/jobs/check/?block=check", FORM | {"num_gpus": "4"}, **HTMX).content.decode()
    )
    assert "for the-holder" in checked
    for address in ("/", "/queue/", "/jobs/"):
        assert "the-holder" not in browser(outsider).get(address).content.decode(), address
    assert calling_by_names([holder.id], ["nlp"])(holder.id) == holder.id
    assert calling_by_names(["job-unknown"], None)("job-unknown") == "job-unknown"


@pytest.mark.parametrize(
    ("checkpoint", "step", "headline", "words", "percent"),
    [
        ("", 0, "Preempted, waiting to start again", "1,488 steps lost, it begins again at step 1.", 0),
        ("ckpt-1", 1200, "Preempted, waiting to resume", "the checkpoint of step 1,200; 288 steps lost.", 40),
    ],
)
def test_a_preempted_job_says_what_is_lost_and_from_where_it_goes_on(
    checkpoint: str, step: int, headline: str, words: str, percent: int,
    browser: Callable[[User], Client], owner: User, submit: Submit,
) -> None:  # fmt: skip
    job = submit()
    Job.objects.filter(id=job.id).update(
        state="preempted",
        attempt=1,
        step=1488,
        total_steps=3000,
        latest_checkpoint=checkpoint,
        latest_step=step,
    )
    page = browser(owner).get(f"/jobs/{job.id}/")
    assert page.context["answer"].headline == headline
    assert words in page.context["answer"].detail
    assert page.context["job"]["percent"] == percent


@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [
        ("", "It has no checkpoint, so a clone begins at step 1."),
        ("ckpt-1", "from the checkpoint of step 40."),
    ],
)
def test_cancelling_promises_only_a_checkpoint_that_there_is(
    checkpoint: str, words: str, browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    job = submit()
    Job.objects.filter(id=job.id).update(latest_checkpoint=checkpoint, latest_step=40)
    assert words in browser(owner).get(f"/jobs/{job.id}/").content.decode()


def test_a_job_that_needed_two_attempts_tells_the_whole_time(
    browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    job = submit()
    Job.objects.filter(id=job.id).update(
        state="succeeded", attempt=2, submitted_ms=0, started_ms=600_000, finished_ms=1_200_000
    )
    answer = browser(owner).get(f"/jobs/{job.id}/").context["answer"]
    assert answer.headline == "Succeeded after 10 min"
    assert answer.detail == "That was attempt 2; all attempts and waits together took 20 min."


def test_what_a_form_answers_stays_true_when_the_job_has_ended(
    browser: Callable[[User], Client], owner: User
) -> None:
    page = browser(owner).post("/jobs/submit/", FORM, follow=True).content.decode()
    assert "from the form was submitted." in page
    assert "is queued" not in page


def test_a_right_that_only_an_admin_gives_sends_nobody_to_a_lead(
    browser: Callable[[User], Client], owner: User
) -> None:
    page = browser(owner).get("/nodes/tokens/").content.decode()
    assert "ask a platform admin" in page
    assert "lead" not in page.partition("<main")[2]


def test_an_elastic_job_with_fewer_slots_than_it_asks_for_says_when_it_grows(
    browser: Callable[[User], Client], owner: User, submit: Submit, cluster: list[Node], settings: Any
) -> None:
    Node.objects.filter(id__in=[node.id for node in cluster[1:]]).update(state="lost")
    job = submit(num_gpus=4, min_gpus=2)
    tick()
    page = browser(owner).get(f"/jobs/{job.id}/").content.decode()
    assert "It runs with 2 slots of cpu and asks for 4. It grows, in 30 min at the earliest," in page
    Job.objects.update(started_ms=1)
    page = browser(owner).get(f"/jobs/{job.id}/").content.decode()
    assert "It grows, where slots are idle, no other job waits for them, and the restart pays." in page
    settings.SCHEDULING_ELASTIC = False
    assert "asks for 4.</p>" in browser(owner).get(f"/jobs/{job.id}/").content.decode()


def test_a_job_with_all_its_slots_has_nothing_to_say_of_them(
    browser: Callable[[User], Client], owner: User, submit: Submit
) -> None:
    job = submit(num_gpus=4, min_gpus=2)
    tick()
    assert "and asks for" not in browser(owner).get(f"/jobs/{job.id}/").content.decode()
