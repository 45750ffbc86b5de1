"""What teams have in the store, divided by kind, project, owner and age."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Split(StrEnum):
    PROJECT = "project"
    OWNER = "owner"
    AGE = "age"
    KIND = "kind"
    TEAM = "team"


class Age(StrEnum):
    """Since the last use, or the creation of what nobody has used."""

    WEEK = "under 7 days"
    MONTH = "7 to 30 days"
    QUARTER = "30 to 90 days"
    YEAR = "90 to 365 days"
    OLDER = "over 365 days"


UNDER_DAYS = {Age.WEEK: 7, Age.MONTH: 30, Age.QUARTER: 90, Age.YEAR: 365}


@dataclass(frozen=True, slots=True)
class Holding:
    team: str
    kind: str
    project: str  # "": of none
    owner: str  # the username of the person whose upload, job or run it is; "": of nobody who is known
    age: Age
    bytes: int
    items: int
    cold_bytes: int = 0  # of these bytes, in the cold store
