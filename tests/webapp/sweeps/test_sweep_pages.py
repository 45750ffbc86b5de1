"""The pages of sweeps: what they show, and what their buttons do."""

import json
import re
from collections.abc import Callable
from typing import Any

from django.test import Client

from tests.webapp.sweeps.conftest import again, ends, job_of, reports, round_, runs
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.checkpoints.models import Checkpoint
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


def checkpoint(row: Sweep, step: int) -> str:
    """Of the first trial; its id."""
    job = job_of(row, 1)
    manifest, _ = Manifest.objects.get_or_create(
        id="man-1", kind="checkpoint", total_bytes=1, files=1, document={"files": []}, created_ms=1
    )
    Checkpoint.objects.create(
        id=f"ckpt-{step}", job=job, attempt=1, step=step, manifest=manifest, saved_ms=step
    )
    return f"ckpt-{step}"


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
    [data] = re.findall(r'<script id="parameters-data" type="application/json">(.*?)</script>', text)
    picture = json.loads(data)
    assert [line["name"] for line in picture["runs"]][-1] == "trial 1: loss 2"
    assert "lr" in [axis["name"] for axis in picture["axes"]]
    assert "Cost by trial" not in text  # no job ran
    bars = browser(owner).get(f"/sweeps/{row.id}/?block=importance_part", headers={"HX-Request": "true"})
    assert "±" in bars.content.decode()
    assert "Random forest on 9 trials" in bars.content.decode()


def test_too_few_trials_for_an_importance_are_counted(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row = sweep(job=None, space=SPACE, budget={"trials": 20})
    evaluated(row, owner, 1)
    bars = browser(owner).get(f"/sweeps/{row.id}/?block=importance_part", headers={"HX-Request": "true"})
    assert "1 trial succeeded; an importance needs at least 8." in bars.content.decode()


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
    assert "resume_from" not in text
    assert "Cost by trial" in text
    answer = browser(owner).get(f"/jobs/submit/?clone={job_id}")
    assert answer.status_code == 200
    assert f"sweep={row.id}" not in answer.content.decode(), "the clone is no trial of the sweep"


def test_the_best_trial_is_run_with_more_from_its_last_checkpoint(
    sweep: MakeSweep, owner: User, browser: Callable[[User], Client]
) -> None:
    row = sweep(budget={"trials": 1})
    round_()
    runs(row, 1)
    reports(row, 1, (1, 2.0))
    saved = [checkpoint(row, step) for step in (10, 20)]
    ends(row, 1)
    assert coordination.coordinate()
    page = browser(owner).get(f"/sweeps/{row.id}/").content.decode()
    [query] = re.findall(r'href="/jobs/submit/\?(clone=[^"]+)"', page)
    assert query.endswith(f"&amp;resume_from={saved[-1]}")
    form = browser(owner).get(f"/jobs/submit/?{query.replace('&amp;', '&')}").content.decode()
    assert f'<option value="{saved[-1]}" selected>' in form


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
    assert f'hx-get="/sweeps/{row.id}/?block=head"' in page.content.decode(), (
        "live parts ask the page, not the form"
    )


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
