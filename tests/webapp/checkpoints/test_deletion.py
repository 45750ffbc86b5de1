"""People delete checkpoints, and change later which ones a job keeps."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.checkpoints.test_retention import Save, stored
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import StorageLimit
from webapp.checkpoints import pins, services
from webapp.checkpoints.models import Checkpoint
from webapp.events.queries import story
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.registry import services as registry

Api = Callable[..., APIClient]
pytestmark = pytest.mark.django_db


def address(row: Checkpoint) -> str:
    return f"/api/v1/training-jobs/{row.job_id}/checkpoints/{row.id}"


def test_a_dry_run_says_what_would_go_and_deletes_nothing(save: Save, owner: User, api: Api) -> None:
    rows = [save(step) for step in (1, 2)]
    told = api(owner).delete(f"{address(rows[0])}?dry_run=true").json()
    assert (told["deleted"], told["freed_bytes"], told["step"]) == (False, rows[0].bytes, 1)
    assert all(map(stored, rows))
    done = api(owner).delete(address(rows[0])).json()
    assert (done["deleted"], done["freed_bytes"]) == (True, rows[0].bytes)
    assert [stored(row) for row in rows] == [False, True]
    assert [event.kind for event in story(f"job:{rows[0].job_id}")].count("CheckpointDeleted") == 1


def test_deleted_twice_it_stays_deleted_and_is_told_once(save: Save, owner: User, api: Api) -> None:
    row = save(1)
    answers = [api(owner).delete(address(row)) for _ in range(2)]
    assert [(one.status_code, one.json()["freed_bytes"]) for one in answers] == [(200, row.bytes), (200, 0)]
    assert [event.kind for event in story(f"job:{row.job_id}")].count("CheckpointDeleted") == 1


def test_files_that_another_checkpoint_shares_stay(save: Save, owner: User, api: Api) -> None:
    first, second = save(1, b"the same"), save(2, b"the same")
    assert api(owner).delete(address(first)).json()["freed_bytes"] == 0
    assert stored(second)


@pytest.mark.parametrize("reason", ["pinned", "in use"])
def test_one_that_somebody_needs_is_refused(reason: str, save: Save, owner: User, api: Api) -> None:
    row = save(1)
    if reason == "pinned":
        pins.pin(actor_of(owner), row.job_id, row.id, pinned=True)
    else:
        registry.register(actor_of(owner), "vision", "m", checkpoint=row.id)
    for query in ("", "?dry_run=true"):
        refused = api(owner).delete(f"{address(row)}{query}")
        assert (refused.status_code, reason in refused.json()["detail"]) == (400, True)
    assert stored(row)


def test_owner_and_lead_delete_and_others_do_not(
    save: Save,
    owner: User,
    member: User,
    lead: User,
    outsider: User,
    admin: User,
    api: Api,
) -> None:
    rows = [save(step) for step in (1, 2, 3, 4, 5)]
    callers = (api(outsider, "nlp"), *map(api, (member, owner, lead, admin)))
    codes = [caller.delete(address(row)).status_code for caller, row in zip(callers, rows, strict=True)]
    assert codes == [404, 403, 200, 200, 200]
    assert [stored(row) for row in rows] == [True, True, False, False, False]


def test_the_page_offers_to_delete_what_nobody_needs(
    save: Save,
    owner: User,
    browser: Callable[[User], Client],
) -> None:
    rows = [save(step) for step in (1, 2)]
    pins.pin(actor_of(owner), rows[0].job_id, rows[0].id, pinned=True)
    page = browser(owner).get(f"/jobs/{rows[0].job_id}/?tab=checkpoints").content.decode()
    assert 'aria-label="Delete the checkpoint of step 2"' in page
    assert 'aria-label="Delete the checkpoint of step 1"' not in page
    gone = browser(owner).post(f"/jobs/{rows[1].job_id}/checkpoints/{rows[1].id}/delete/", follow=True)
    assert "The checkpoint of step 2 is deleted" in gone.content.decode()
    assert not stored(rows[1])


def test_a_rule_is_changed_after_the_submission_and_holds_from_then_on(
    save: Save,
    job: Job,
    owner: User,
    member: User,
    api: Api,
) -> None:
    rule = f"/api/v1/training-jobs/{job.id}/retention"
    assert api(member).put(rule, {"keep_last": 3}, format="json").status_code == 403
    assert api(owner).put(rule, {"keep_last": 0}, format="json").status_code == 422
    assert api(owner).put(rule, {"keep_last": 3}, format="json").status_code == 200
    rows = [save(step) for step in (1, 2, 3, 4)]
    assert services.retain() == 1, "three stay, and not the one of the job file"
    assert api(owner).put(rule, {"keep_last": 2}, format="json").json()["deleted_bytes"] == rows[1].bytes
    assert services.retain() == 1
    assert [stored(row) for row in rows] == [False, False, True, True]
    assert "RetentionRuleSet" in [event.kind for event in story(f"job:{job.id}")]


def test_the_limit_of_checkpoints_is_asked_only_of_what_saves(save: Save, job: Job, owner: User) -> None:
    save(1)
    StorageLimit.objects.create(team_id="vision", kind="checkpoint", bytes=1, set_ms=1)
    mapping = {"name": "more", "team": "vision", "command": "train.py", "num_gpus": 1, "gpu_type": "cpu"}
    with pytest.raises(Exception, match="storage limit for them is"):
        jobs.submit(actor_of(owner), mapping)
    jobs.submit(actor_of(owner), {**mapping, "name": "serving", "kind": "service"})
