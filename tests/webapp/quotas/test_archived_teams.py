"""An archived team gives its quotas back, and is not archived while it works."""

from collections.abc import Callable

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping
from webapp.accounts import services as accounts
from webapp.accounts.models import Team
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.quotas import services
from webapp.quotas.models import Quota

Give = Callable[..., Quota]


def test_the_guarantee_of_an_archived_team_is_free(cast: Cast, vision: Team, quota: Give) -> None:
    quota(vision)
    accounts.archive_team(SYSTEM, "vision")
    assert not Quota.objects.exists()
    event = Event.objects.get(kind="QuotaChanged")
    assert event.cause == "cpu 4 to 8 → none: the team is archived"


def test_a_team_with_a_job_that_has_not_ended_is_not_archived(cast: Cast, vision: Team, quota: Give) -> None:
    quota(vision)
    job, _ = jobs.submit(actor_of(cast.owner), job_mapping())
    with pytest.raises(TrainmasterError, match=rf"Team vision still has bytelm \({job.id}\)"):
        accounts.archive_team(SYSTEM, "vision")
    assert Team.objects.get(slug="vision").archived_ms is None
    jobs.cancel(actor_of(cast.owner), job.id)
    accounts.archive_team(SYSTEM, "vision")


def test_an_archived_team_gets_no_quota_and_submits_nothing(cast: Cast, vision: Team, quota: Give) -> None:
    accounts.archive_team(SYSTEM, "vision")
    with pytest.raises(TrainmasterError, match="a platform admin restores it first"):
        services.edit_quota(SYSTEM, "vision", "cpu", guaranteed=1, maximum=2, queue_beyond=True, version=0)
    for person in (cast.owner, cast.admin):
        with pytest.raises(TrainmasterError):
            jobs.submit(actor_of(person), job_mapping())
