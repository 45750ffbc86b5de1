"""What each team deserves, holds, borrows and lends: the record, and the page."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team, User
from webapp.nodes.models import Node
from webapp.quotas import sharing
from webapp.quotas.models import Quota, ShareSample

Give = Callable[..., Quota]
Hold = Callable[..., None]
Browser = Callable[[User], Client]
NOW = 1_000 * DAY_MS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_to(at_ms: int) -> None:
        monkeypatch.setattr(sharing, "now_ms", lambda: at_ms)

    set_to(NOW)
    return set_to


@pytest.fixture
def shared(
    cast: Cast, vision: Team, nlp: Team, node: Callable[..., Node], quota: Give, hold: Hold, owner: User
) -> None:
    """16 slots; vision is guaranteed 4 and holds 10, nlp is guaranteed 8 and holds nothing."""
    node(slots=16)
    quota(vision, guaranteed=4, maximum=16)
    quota(nlp, guaranteed=8, maximum=16)
    hold(vision, owner, slots=10, at_ms=NOW - HOUR_MS)


def kept(team: str = "vision") -> list[ShareSample]:
    return list(ShareSample.objects.filter(team=team).order_by("at_ms"))


def test_a_borrower_holds_what_another_is_guaranteed(shared: None) -> None:
    nlp, vision = sharing.standings(NOW)["cpu"].teams
    assert (vision.share.deserved, vision.quota.used, vision.share.borrowed, vision.share.lent) == (
        6,
        10,
        6,
        0,
    )
    assert (nlp.share.deserved, nlp.quota.used, nlp.share.borrowed, nlp.share.lent) == (10, 0, 0, 2)


def test_a_sample_is_kept_when_something_has_changed(
    shared: None, clock: Callable[[int], None], hold: Hold, nlp: Team, owner: User
) -> None:
    sharing.sample()
    clock(NOW + MINUTE_MS)
    sharing.sample()
    hold(nlp, owner, slots=3, at_ms=NOW)
    clock(NOW + 2 * MINUTE_MS)
    sharing.sample()
    assert [(row.at_ms - NOW, row.held) for row in kept("nlp")] == [(0, 0), (2 * MINUTE_MS, 3)]
    assert [row.held for row in kept("vision")] == [10]


def test_what_does_not_change_is_kept_once_an_hour(shared: None, clock: Callable[[int], None]) -> None:
    for minutes in range(0, 130, 10):
        clock(NOW + minutes * MINUTE_MS)
        sharing.sample()
    assert [(row.at_ms - NOW) // MINUTE_MS for row in kept("nlp")] == [0, 60, 120]


def test_what_is_older_than_a_month_goes(shared: None, clock: Callable[[int], None]) -> None:
    sharing.sample()
    clock(NOW + 32 * DAY_MS)
    sharing.sample()
    assert [row.at_ms for row in kept()] == [NOW + 32 * DAY_MS]


def test_the_course_holds_from_row_to_row_and_has_gaps_where_the_platform_was_away(
    cast: Cast, vision: Team
) -> None:
    for hour, held in ((0, 2), (1, 5), (6, 1)):
        ShareSample.objects.create(
            at_ms=NOW + hour * HOUR_MS, team=vision, gpu_type="cpu", weight=1, guaranteed=4, deserved=6,
            held=held, borrowed=max(0, held - 4), lent=0, usage_share=1.0,
        )  # fmt: skip
    past = sharing.history("vision", "cpu", NOW - 2 * HOUR_MS, NOW + 6 * HOUR_MS, 16)
    held = dict(zip([(at - NOW) // (30 * MINUTE_MS) for at in past["at_ms"]], past["held"], strict=True))
    assert next(iter(held)) == 0  # before that nothing was recorded
    assert [held[half] for half in (0, 1, 2, 3, 4, 6, 11, 12)] == [2, 2, 5, 5, 5, None, None, 1]
    assert past["borrowed"][2] == 1


def test_a_member_sees_the_own_team_and_the_others_as_a_sum(
    shared: None, browser: Browser, member: User
) -> None:
    page = browser(member).get("/shares/").content.decode()
    assert "vision uses all 4 guaranteed cpu slots and 6 borrowed" in page
    assert "1 other team" in page
    assert "nlp" not in page
    assert "10 of 16 cpu slots allocated" in page


def test_an_admin_sees_every_team(shared: None, browser: Browser, admin: User) -> None:
    page = browser(admin).get("/shares/?team=nlp").content.decode()
    assert "nlp uses 0 of 8 guaranteed cpu slots" in page
    assert "Other teams borrow 2 of the rest." in page
    assert 'data-key="-others"' not in page


def test_whoever_asks_for_a_team_that_is_not_theirs_gets_their_own(
    shared: None, browser: Browser, member: User
) -> None:
    page = browser(member).get("/shares/?team=nlp&period=century&gpu_type=none").content.decode()
    assert "vision, last 24 hours" in page


def test_the_address_restores_the_view(
    shared: None, clock: Callable[[int], None], browser: Browser, admin: User
) -> None:
    page = browser(admin).get("/shares/?gpu_type=cpu&team=nlp&period=week").content.decode()
    assert "nlp, last 7 days" in page
    assert re.search(r'href="\?[^"]*period=month[^"]*"', page)
    assert re.search(r'href="\?[^"]*team=vision[^"]*"', page)


def test_nobody_has_a_quota_yet(browser: Browser, member: User) -> None:
    assert "No team has a quota yet" in browser(member).get("/shares/").content.decode()


def test_fifty_teams_take_no_more_queries_than_two(
    shared: None,
    browser: Browser,
    admin: User,
    django_assert_max_num_queries: Callable[..., object],
    quota: Give,
) -> None:
    for number in range(50):
        quota(Team.objects.create(slug=f"team-{number}", name=f"Team {number}"), guaranteed=1, maximum=4)
    client = browser(admin)
    with django_assert_max_num_queries(24):  # type: ignore[attr-defined]
        client.get("/shares/")
