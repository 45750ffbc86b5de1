"""Who may use which priority."""

import pytest

from platform_core.jobs.urgency import Rank, TooUrgent, UrgencyLimits, admit

LIMITS = UrgencyLimits(members=50, leads=10)


@pytest.mark.parametrize(
    ("rank", "priority"),
    [(Rank.MEMBER, 50), (Rank.MEMBER, 100), (Rank.LEAD, 10), (Rank.LEAD, 50), (Rank.ADMIN, 0)],
)
def test_whoever_stays_within_the_limit_is_admitted(rank: Rank, priority: int) -> None:
    assert admit(priority, rank, "vision", LIMITS) is None


@pytest.mark.parametrize(
    ("rank", "priority", "limit", "who", "whom"),
    [
        (Rank.MEMBER, 49, 50, "members of vision",
         "a lead of vision, who may use 10 and less urgent ones, or a platform admin"),
        (Rank.MEMBER, 0, 50, "members of vision", "a platform admin"),
        (Rank.LEAD, 9, 10, "leads of vision", "a platform admin"),
    ],
)  # fmt: skip
def test_a_more_urgent_one_is_refused_with_the_limit_and_who_may_use_it(
    rank: Rank, priority: int, limit: int, who: str, whom: str
) -> None:
    assert admit(priority, rank, "vision", LIMITS) == TooUrgent(priority, limit, who, whom)
