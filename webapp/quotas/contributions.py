"""What the apps above know of the books: of a job by its id, what waits, and how many slots there are."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobFact:
    name: str
    state: str


Describe = Callable[[Iterable[str]], Mapping[str, JobFact]]  # job ids → name and state
Queued = Callable[[str], Mapping[str, int]]  # team slug → {gpu type: GPUs its waiting jobs ask for}

Capacity = Callable[[], Mapping[str, int]]  # gpu type → slots

_DESCRIBE: list[Describe] = []
_QUEUED: list[Queued] = []
_CAPACITY: list[Capacity] = []


def register(describe: Describe, queued: Queued) -> None:
    _DESCRIBE[:] = [describe]
    _QUEUED[:] = [queued]


def describe(job_ids: Iterable[str]) -> Mapping[str, JobFact]:
    wanted = list(job_ids)
    return _DESCRIBE[0](wanted) if _DESCRIBE and wanted else {}


def queued(team: str) -> Mapping[str, int]:
    return _QUEUED[0](team) if _QUEUED else {}


def register_capacity(working: Capacity, registered: Capacity) -> None:
    _CAPACITY[:] = [working, registered]


def capacity() -> Mapping[str, int]:
    """The slots of nodes that take work."""
    return _CAPACITY[0]() if _CAPACITY else {}


def registered() -> Mapping[str, int]:
    """The slots of all nodes, those that are lost or take no work included."""
    return _CAPACITY[1]() if _CAPACITY else {}
