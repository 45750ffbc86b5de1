"""Checkpoints go when the policy of their job says so; their bytes go with them, and never what a model uses."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import deletion, pins, retention, services, turns
from webapp.checkpoints.models import Checkpoint
from webapp.events.queries import story
from webapp.jobs.models import Job
from webapp.registry import services as registry

Save = Callable[..., Checkpoint]


def stored(checkpoint: Checkpoint) -> bool:
    """Whether the bytes lie where the platform says."""
    reference = artifacts.reference(checkpoint.manifest_id)
    return bool(reference.source_url) and open_store(reference.source_url).exists("state.pt")


def test_the_older_ones_leave_the_store(save: Save, store: Path) -> None:
    old, new = save(10), save(20)
    assert services.retain() == 1
    assert not (store / "checkpoint" / "1-10" / "state.pt").exists()
    assert not stored(old)
    assert stored(new)


def test_one_that_a_model_version_uses_stays(save: Save, owner: User) -> None:
    used, _ = save(10), save(20)
    registry.register(actor_of(owner), "vision", "bytelm", checkpoint=used.id)
    assert services.retain() == 0
    assert stored(used)


def test_the_same_bytes_saved_again_after_they_were_deleted_are_found(save: Save) -> None:
    save(10)
    save(20)
    services.retain()
    again = save(10, attempt=2)
    assert stored(again), "a deterministic run makes the very same checkpoint in its next attempt"


def test_the_same_bytes_at_two_places_are_kept_once(save: Save, store: Path) -> None:
    save(10)
    again = save(10, attempt=2)
    assert stored(again)
    assert len(list((store / "checkpoint").rglob("state.pt"))) == 1
    services.retain()
    assert stored(again), "the older one of the two went, its bytes are still needed"


def test_a_job_is_not_looked_at_again_before_something_comes_to_it(save: Save, job: Job) -> None:
    save(10)
    assert services.retain() == 0
    with CaptureQueriesContext(connection) as made:
        assert services.retain() == 0
    assert len(made) == 1
    assert "checkpoints_checkpoint" not in made.captured_queries[0]["sql"]


def test_what_a_waiting_job_needs_is_looked_at_again_on_the_next_day(
    save: Save, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = save(10), save(20)
    Job.objects.filter(id=job.id).update(latest_checkpoint=old.id)
    assert services.retain() == 0
    Job.objects.filter(id=job.id).update(latest_checkpoint="")
    assert services.retain() == 0
    next_day = now_ms() + DAY_MS
    monkeypatch.setattr(turns, "now_ms", lambda: next_day)
    assert services.retain() == 1
    assert not stored(old)


def test_news_that_come_while_a_job_is_looked_at_give_it_another_turn(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = save(10), save(20)
    look = retention.verdict

    def look_while_another_is_saved(*about: object) -> retention.Verdict:
        monkeypatch.setattr(retention, "verdict", look)
        verdict = look(*about)  # type: ignore[arg-type]
        save(30)
        return verdict

    monkeypatch.setattr(retention, "verdict", look_while_another_is_saved)
    assert services.retain() == 1
    assert not stored(first)
    assert services.retain() == 1


def test_a_round_that_broke_off_is_taken_up_again(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    save(10)
    save(20)
    with monkeypatch.context() as broken:
        broken.setattr(retention, "verdict", Mock(side_effect=OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            services.retain()
    later = now_ms() + turns.AGAIN_MS
    monkeypatch.setattr(turns, "now_ms", lambda: later)
    assert services.retain() == 1


def test_a_round_deletes_no_more_than_its_limit_and_the_next_goes_on(save: Save) -> None:
    for step in (10, 20, 30, 40):
        save(step)
    assert [services.retain(limit=2), services.retain(limit=2)] == [2, 1]


def test_only_jobs_with_more_than_they_keep_are_loaded_and_no_manifest_of_what_stays(
    save: Save,
) -> None:
    for step in (10, 20, 30):
        save(step)
    services.retain()
    save(40)
    with CaptureQueriesContext(connection) as made:
        assert services.retain() == 1
    documents = [each["sql"] for each in made if '"artifacts_manifest"."document"' in each["sql"]]
    assert len(documents) == 1, "the one that is deleted"


def by_rule(job: Job, **policy: object) -> None:
    Job.objects.filter(id=job.id).update(spec={**job.spec, "retention": {**job.spec["retention"], **policy}})


def test_the_best_by_a_metric_stay_beside_the_last(save: Save, job: Job) -> None:
    by_rule(job, best=1, metric="loss", direction="lowest")
    rows = [save(step) for step in (1, 2, 3)]
    for row, loss in zip(rows, (0.5, 0.1, 0.9), strict=True):
        Checkpoint.objects.filter(id=row.id).update(metrics={"loss": loss})
    assert services.retain() == 1
    assert [stored(row) for row in rows] == [False, True, True]


def test_a_pinned_one_stays_until_it_is_unpinned(
    save: Save, job: Job, owner: User, api: Callable[[User], APIClient]
) -> None:
    first, second = [save(step) for step in (1, 2)]
    pin = f"/api/v1/training-jobs/{job.id}/checkpoints/{first.id}/pin"
    for _ in range(2):
        assert api(owner).put(pin).json()["pinned_by"] == owner.username
    assert services.retain() == 0
    assert [event.kind for event in story(f"job:{job.id}")].count("CheckpointPinned") == 1
    assert api(owner).delete(pin).json()["pinned_by"] == ""
    assert services.retain() == 1
    assert [stored(row) for row in (first, second)] == [False, True]
    refused = api(owner).put(pin)
    assert (refused.status_code, refused.json()["code"]) == (400, "request_invalid")


def test_a_pin_on_the_page_is_said_and_taken_back(
    save: Save, job: Job, owner: User, browser: Callable[[User], Client]
) -> None:
    row, person = save(1), browser(owner)
    for given, said, offered in (({"pinned": "yes"}, True, "Unpin"), ({}, False, "Pin")):
        page = person.post(f"/jobs/{job.id}/checkpoints/{row.id}/pin/", given, follow=True).content.decode()
        assert (f"pinned by {owner.username}" in page) is said
        assert f'aria-label="{offered} the checkpoint of step 1"' in page


def test_a_pin_that_comes_while_it_is_being_deleted_keeps_it(save: Save, owner: User, job: Job) -> None:
    row = save(1)
    stale = Checkpoint.objects.get(id=row.id)
    pins.pin(actor_of(owner), job.id, row.id, pinned=True)
    assert not deletion.remove(stale)
    assert stored(row)


def test_a_checkpoint_of_another_job_is_not_found(save: Save, owner: User) -> None:
    row = save(1)
    with pytest.raises(TrainmasterError, match="There is no checkpoint"):
        pins.pin(actor_of(owner), "job-other", row.id, pinned=True)


def test_what_another_rule_would_delete_is_seen_first(
    save: Save, job: Job, owner: User, api: Callable[[User], APIClient], browser: Callable[[User], Client]
) -> None:
    rows = [save(step) for step in (1, 2, 3)]
    address = f"/api/v1/training-jobs/{job.id}/retention"
    own = api(owner).get(address).json()
    assert [(one["step"], one["stays"]) for one in own["results"]] == [(3, ["last"]), (2, []), (1, [])]
    assert own["job_bytes"] == own["team_bytes"] == sum(row.bytes for row in rows)
    other = api(owner).post(address, {"keep_last": 2}, format="json").json()
    assert [one["step"] for one in other["results"] if one["stays"]] == [3, 2]
    assert other["deleted_bytes"] == rows[0].bytes
    wrong = api(owner).post(address, {"keep_last": 0, "best": -1, "forever": True}, format="json")
    assert wrong.status_code == 422
    assert all(stored(row) for row in rows), "nothing is deleted by looking"
    page = browser(owner).get(f"/jobs/{job.id}/?tab=checkpoints").content.decode()
    assert "Kept: the last 1." in page
    assert "goes: not among those that the policy keeps" in page
