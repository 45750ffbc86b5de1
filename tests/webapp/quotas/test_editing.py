from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.pages.teams import quota as panel
from webapp.quotas import queries, services
from webapp.quotas.models import Price, Quota

ActorOf = Callable[[User], Actor]
Browser = Callable[[User], Client]
Give = Callable[..., Quota]
Hold = Callable[..., None]


def test_a_lead_changes_the_quota_and_the_audit_log_has_before_and_after(
    cast: Cast, vision: Team, quota: Give, browser: Browser
) -> None:
    quota(vision, guaranteed=4, maximum=8)
    form = {"gpu_type": "cpu", "guaranteed": 2, "maximum": 6, "version": 1, "reason": "a smaller budget"}
    answer = browser(cast.lead).post("/teams/vision/quota/", form, follow=True)
    assert "Quota for cpu saved." in answer.content.decode()
    row = Quota.objects.get()
    assert (row.guaranteed, row.maximum, row.queue_beyond, row.version) == (2, 6, False, 2)
    event = Event.objects.get(kind="QuotaChanged")
    assert (event.actor, event.team) == ("user:lena", "vision")
    assert event.cause == "cpu 4 to 8 → 2 to 6, beyond it refused: a smaller budget"
    assert event.data["before"] == {"guaranteed": 4, "maximum": 8, "queue_beyond": True}
    assert event.data["after"] == {"guaranteed": 2, "maximum": 6, "queue_beyond": False}


def test_two_leads_at_once_do_not_overwrite_each_other(
    cast: Cast, vision: Team, quota: Give, actor: ActorOf
) -> None:
    quota(vision)
    change = {"guaranteed": 0, "queue_beyond": True, "version": 1}
    services.edit_quota(actor(cast.lead), "vision", "cpu", maximum=6, **change)
    with pytest.raises(TrainmasterError, match="version 1"):
        services.edit_quota(actor(cast.admin), "vision", "cpu", maximum=10, **change)
    assert Quota.objects.get().maximum == 6


def test_saving_what_stands_there_already_is_no_event(vision: Team, quota: Give) -> None:
    quota(vision, guaranteed=4, maximum=8)
    services.edit_quota(SYSTEM, "vision", "cpu", guaranteed=4, maximum=8, queue_beyond=True, version=1)
    assert not Event.objects.filter(kind="QuotaChanged").exists()


def test_a_new_type_gets_its_first_quota(vision: Team) -> None:
    services.edit_quota(SYSTEM, "vision", "h100", guaranteed=0, maximum=16, queue_beyond=True, version=0)
    assert Quota.objects.get(gpu_type="h100").version == 1
    with pytest.raises(TrainmasterError) as refusal:
        services.edit_quota(SYSTEM, "vision", "h100", guaranteed=0, maximum=1, queue_beyond=True, version=0)
    assert refusal.value.code == "duplicate_name"


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"guaranteed": 9, "maximum": 8}, "9 guaranteed, 8 at most"),
        ({"guaranteed": -1, "maximum": 8}, "-1 guaranteed"),
        ({"guaranteed": "many", "maximum": 8}, "Guaranteed: Enter a whole number."),
        ({"guaranteed": 1, "maximum": 8, "gpu_type": "A100 80GB"}, "lower-case letters, digits and dashes"),
    ],
)
def test_bad_numbers_are_refused_on_the_page(
    cast: Cast, browser: Browser, form: dict[str, object], told: str
) -> None:
    answer = browser(cast.lead).post("/teams/vision/quota/", {"gpu_type": "cpu", **form})
    assert answer.status_code in (400, 422)
    assert told in answer.content.decode()
    assert not Quota.objects.exists()


def test_a_member_edits_no_quota(cast: Cast, vision: Team, quota: Give, browser: Browser) -> None:
    quota(vision)
    form = {"gpu_type": "cpu", "guaranteed": 8, "maximum": 80, "version": 1}
    answer = browser(cast.member).post("/teams/vision/quota/", form)
    assert answer.status_code == 403
    assert "ask a lead of vision" in answer.content.decode()
    assert Quota.objects.get().maximum == 8


def test_the_page_says_what_is_held_left_and_borrowed(
    cast: Cast, vision: Team, quota: Give, hold: Hold, browser: Browser
) -> None:
    quota(vision, guaranteed=4, maximum=8)
    hold(vision, cast.owner, slots=6, job="job-big")
    client = browser(cast.viewer)
    page = client.get("/teams/vision/").content.decode()
    assert "Vision uses all 4 guaranteed cpu slots and 2 borrowed" in page
    assert '<td class="n">2</td>' in page  # headroom
    assert "job-big" in client.get("/teams/vision/costs/").content.decode()


@pytest.mark.parametrize(
    ("guaranteed", "held", "words"),
    [
        (8, 6, "Vision uses 6 of 8 guaranteed cpu slots"),
        (8, 0, "Vision uses 0 of 8 guaranteed cpu slots"),
        (4, 6, "Vision uses all 4 guaranteed cpu slots and 2 borrowed"),
        (0, 3, "Vision uses 3 borrowed cpu slots"),
        (0, 0, "Vision uses no cpu slots and is guaranteed none"),
    ],
)
def test_one_headline_says_what_the_team_uses(
    vision: Team, cast: Cast, quota: Give, hold: Hold, guaranteed: int, held: int, words: str
) -> None:
    quota(vision, guaranteed=guaranteed, maximum=8)
    if held:
        hold(vision, cast.owner, slots=held)
    assert panel.headline("Vision", queries.quotas("vision")) == words


def test_a_lowered_maximum_is_told_as_what_it_is(
    vision: Team, cast: Cast, quota: Give, hold: Hold, browser: Browser
) -> None:
    quota(vision, guaranteed=0, maximum=4)
    hold(vision, cast.owner, slots=6)
    page = browser(cast.viewer).get("/teams/vision/").content.decode()
    assert "2 over the maximum since it was lowered" in page


def test_the_chart_of_a_young_team_begins_with_its_first_use(
    vision: Team, cast: Cast, quota: Give, hold: Hold
) -> None:
    now = 1_000 * DAY_MS
    hold(vision, cast.owner, slots=2, at_ms=now - 2 * HOUR_MS, until_ms=now - HOUR_MS)
    use = panel.fitted_use("vision", now)
    assert use.period == "since the first use, 2 h ago"
    (line,) = use.chart["series"]
    assert now - 3 * HOUR_MS < line["x"][0] < now - 2 * HOUR_MS
    hold(vision, cast.owner, slots=1, at_ms=now - 40 * DAY_MS, until_ms=now - 29 * DAY_MS)
    assert panel.fitted_use("vision", now).period == "last 30 days"


def test_a_team_that_never_ran_anything_has_an_empty_chart(vision: Team) -> None:
    assert panel.fitted_use("vision", 1_000 * DAY_MS).chart["series"] == []


def test_jobs_under_a_cent_are_one_row(
    cast: Cast, vision: Team, quota: Give, hold: Hold, browser: Browser
) -> None:
    now = now_ms()
    Price.objects.create(gpu_type="cpu", micro_dollars_per_hour=1_000_000)
    hold(vision, cast.owner, at_ms=now - HOUR_MS, until_ms=now, job="job-dear")
    for number in range(30):
        hold(
            vision, cast.owner, at_ms=now - HOUR_MS, until_ms=now - HOUR_MS + 1000, job=f"job-cheap-{number}"
        )
    page = browser(cast.viewer).get("/teams/vision/costs/").content.decode()
    assert "job-dear" in page
    assert "30 other jobs" in page
    assert "each under $0.01" in page
    assert "job-cheap" not in page


def test_the_plot_has_steps_and_a_mark_for_each_changed_limit(
    cast: Cast, vision: Team, quota: Give, hold: Hold, browser: Browser
) -> None:
    quota(vision)
    services.edit_quota(SYSTEM, "vision", "cpu", guaranteed=4, maximum=12, queue_beyond=True, version=1)
    since = Event.objects.get(kind="QuotaChanged").at_ms - 1000
    hold(vision, cast.owner, slots=2, at_ms=since, until_ms=since + 500)
    chart = browser(cast.owner).get("/teams/vision/use.json?days=1").json()
    assert chart["marks"] == [{"x": since + 1000, "text": "cpu: 8 → 12"}]
    (line,) = chart["series"]
    assert line["y"] == [0, 0, 2, 2, 0, 0]
    assert line["x"][1:5] == [since, since, since + 500, since + 500]


def test_the_plot_of_another_team_does_not_exist(cast: Cast, browser: Browser) -> None:
    assert browser(cast.outsider).get("/teams/vision/use.json").status_code == 404


def test_a_long_plot_is_thinned_and_keeps_its_peaks() -> None:
    steps = tuple((at_ms, 9 if at_ms == 4321 else at_ms % 2) for at_ms in range(10_000))
    thinned = panel.thin(steps, 0, 10_000)
    assert len(thinned) <= panel.MOST_STEPS + 1
    assert max(level for _, level in thinned) == 9
    assert thinned[-1][1] == steps[-1][1]
