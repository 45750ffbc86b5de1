"""The pages of sweeps: what they show, and what their buttons do."""

from collections.abc import Callable
from typing import Any

from django.test import Client

from tests.webapp.sweeps.conftest import again, ends, reports, round_, runs
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.sweeps import coordination, outside, services
from webapp.sweeps.models import Sweep

MakeSweep = Callable[..., Sweep]
SPACE = {"lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1}, "optimizer": ["adam", "sgd"]}


def evaluated(row: Sweep, owner: User, count: int) -> None:
    """A program evaluates so many trials of a sweep without a job."""
    for number in range(1, count + 1):
        outside.ask(actor_of(owner), row.id)
        outside.tell(
            actor_of(owner), row.id, number, points=[(1, 5.0), (2, 1.0 + number)], value=1.0 + number
        )


def test_the_page_shows_the_best_trial_and_every_other(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row = sweep(job=None, space=SPACE, budget={"trials": 20})
    evaluated(row, owner, 9)
    page = browser(owner).get(f"/sweeps/{row.id}/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "Best loss" in text
    assert text.count('data-key="trial-') == 9
    assert text.count("<polyline") == 9
    assert "Importance of the parameters" in text
    assert "Eight trials have to succeed" not in text


def test_the_best_trial_can_be_run_with_more(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row = sweep(budget={"trials": 1})
    round_()
    runs(row, 1)
    reports(row, 1, (1, 2.0))
    ends(row, 1)
    assert coordination.coordinate()
    text = browser(owner).get(f"/sweeps/{row.id}/").content.decode()
    [job_id] = [trial.job_id for trial in row.trials.all()]
    assert f"?clone={job_id}" in text
    assert browser(owner).get(f"/jobs/submit/?clone={job_id}").status_code == 200


def test_buttons_pause_resume_and_change_the_budget(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row, client = sweep(), browser(owner)
    assert client.post(f"/sweeps/{row.id}/pause/").status_code == 302
    assert again(row).state == "paused"
    assert client.post(f"/sweeps/{row.id}/resume/").status_code == 302
    assert client.post(f"/sweeps/{row.id}/budget/", {"trials": "9", "cost": "2.5"}).status_code == 302
    assert again(row).spec["budget"] == {"trials": 9, "gpu_hours": 0, "cost": 2.5, "hours": 0}


def test_a_wrong_budget_is_refused_with_a_sentence_on_the_page(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row = sweep()
    page = browser(owner).post(f"/sweeps/{row.id}/budget/", {"trials": "many"})
    assert page.status_code == 422
    assert "budget.trials is &#x27;many&#x27;; it must be a whole number" in page.content.decode()


def test_the_list_has_its_sweeps_and_says_how_to_begin(
    sweep: MakeSweep, owner: User, outsider: User, browser: Callable[[User], Client]
) -> None:
    row = sweep()
    assert row.name in browser(owner).get("/sweeps/").content.decode()
    assert "trainmaster sweep sweep.yaml" in browser(outsider).get("/sweeps/").content.decode()


def test_a_cancelled_sweep_cannot_be_resumed(sweep: MakeSweep, owner: User, browser: Any) -> None:
    row = sweep()
    services.cancel(actor_of(owner), row.id)
    page = browser(owner).post(f"/sweeps/{row.id}/resume/")
    assert page.status_code == 409
    assert "is cancelled; resume is not possible now" in page.content.decode()
