"""A job submitted once more as it was, and the two runs beside each other."""

import math
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import say, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments import reproduction
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs.models import Job
from webapp.jobs.repetition import run_again

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
Browser = Callable[[User], Client]


@pytest.fixture
def original(submit: Submit) -> Job:
    return submit(hyperparameters={"lr": 0.1}, seed=7, tags=["baseline"], experiment="again")


def report(job: Job, loss: float, packages: dict[str, str]) -> None:
    experiments.describe_run(job.id, {"packages": packages})
    experiments.ingest(job.id, 1, [Point("loss", 1, loss, now_ms())])


def test_it_has_the_same_spec_and_names_its_original(original: Job, owner: User) -> None:
    again = run_again(actor_of(owner), original.id)
    assert (again.spec, again.lineage["repeats"], again.cloned_from) == (
        original.spec,
        original.id,
        original.id,
    )


def test_a_key_repeats_it_once(original: Job, owner: User) -> None:
    first, second = (run_again(actor_of(owner), original.id, "k") for _ in range(2))
    assert first.id == second.id


def test_what_differs_and_whether_the_metrics_agree(original: Job, owner: User) -> None:
    again = run_again(actor_of(owner), original.id)
    report(original, 1.0, {"torch": "2.4"})
    report(again, 1.5, {"torch": "2.5"})
    found = reproduction.of_job(actor_of(owner), again)
    assert found is not None
    assert [row.name for subject in found.subjects for row in subject.changes] == ["torch"]
    assert found.sentence == "Different packages. 1 of 1 metrics differ by more than 1%."


def test_an_elastic_job_that_had_fewer_gpus_ran_on_different_hardware(submit: Submit, owner: User) -> None:
    original = submit(num_gpus=4, min_gpus=2, preemptible=True)
    tick()
    say(original, MemberPhase.RUNNING)
    say(original, MemberPhase.EXITED, 0)
    submit(num_gpus=6)
    tick()
    again = run_again(actor_of(owner), original.id)
    tick()
    found = reproduction.of_job(actor_of(owner), again)
    assert found is not None
    changes = [(row.name, row.before, row.after) for subject in found.subjects for row in subject.changes]
    assert changes == [("GPUs", "4", "2")]
    assert found.sentence.startswith("Different hardware.")


def test_a_viewer_may_look_but_not_repeat(original: Job, viewer: User) -> None:
    with pytest.raises(TrainmasterError):
        run_again(actor_of(viewer), original.id)


def test_an_original_of_another_team_stays_unseen(original: Job, owner: User, outsider: User) -> None:
    again = run_again(actor_of(owner), original.id)
    assert reproduction.of_job(actor_of(outsider), again) is None


def test_the_page_repeats_it_and_shows_the_comparison(original: Job, owner: User, browser: Browser) -> None:
    client = browser(owner)
    address = client.post(f"/jobs/{original.id}/again/")["Location"]
    again = Job.objects.exclude(id=original.id).get()
    report(original, 1.0, {"torch": "2.4"})
    report(again, 1.0, {"torch": "2.5"})
    page = client.get(f"{address}?tab=spec").content.decode()
    assert "Different packages. The metric is identical." in page
    assert "Packages: torch" in page


def test_a_metric_that_is_no_number_has_an_answer_over_rest(
    original: Job, owner: User, browser: Browser
) -> None:
    again = run_again(actor_of(owner), original.id)
    report(original, math.nan, {})
    report(again, 1.0, {})
    answer = browser(owner).get(f"/api/v1/training-jobs/{again.id}/reproduction")
    assert (answer.status_code, answer.json()["metrics"][0]["before"]) == (200, None)
