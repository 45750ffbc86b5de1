"""What `trainmaster storage show` says of limits and budgets."""

from tests.sdk.conftest import Trainmaster
from tests.sdk.platform_stub import PlatformStub

PART = {"kind": "dataset", "bytes": 2**20, "items": 3, "limit": None}
TEAM = {
    "team": "vision",
    "bytes": 2**20,
    "parts": [PART],
    "month_micro_dollars": 2_000_000,
    "growth": None,
    "days_left": None,
    "budget": None,
}


def test_limits_and_budgets_stand_beside_what_is_stored(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    limited = {**TEAM, "parts": [{**PART, "limit": 2**21}], "budget": 1_000_000}
    platform.answer("GET storage", {"results": [limited]})
    shown = trainmaster("storage", "show").stdout
    assert shown.splitlines()[1].split()[-2:] == ["2", "MiB"]
    assert "vision: 1 MiB, $2.00 a month of a budget of $1.00, growth is not known yet" in shown


def test_what_has_neither_limit_nor_budget_says_nothing_of_them(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer("GET storage", {"results": [TEAM]})
    shown = trainmaster("storage", "show").stdout
    assert shown.splitlines()[1].split() == ["vision", "dataset", "1", "MiB", "3"]
    assert "budget" not in shown


def test_projects_stand_with_their_team_and_their_part_of_the_whole(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    share = {"team": "vision", "name": "pose", "bytes": 3 * 2**20, "items": 2, "month_micro_dollars": 0}
    rest = {**share, "name": "", "bytes": 2**20, "items": 1}
    platform.answer("GET storage/shares", {"results": [share, rest]})
    lines = trainmaster("storage", "show", "--by", "project", "--team", "vision").stdout.splitlines()
    assert lines[0].split() == ["PROJECT", "SIZE", "SHARE", "ITEMS", "A", "MONTH"]
    assert lines[1].split() == ["vision/pose", "3", "MiB", "75%", "2"]
    assert lines[2].split() == ["vision/no", "project", "1", "MiB", "25%", "1"]


def test_a_team_alone_says_nothing_of_how_to_divide(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    assert "--team needs --by" in trainmaster("storage", "show", "--team", "vision", code=2).output
