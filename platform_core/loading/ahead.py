"""Which files of a streamed dataset a node fetches next, and which it deletes, on a bounded part of its disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, zip_longest

INDEX_FILE = "trainmaster-index.json"  # in a dataset: how many samples each shard has


@dataclass(frozen=True, slots=True)
class Ask:
    """Of one loader: the files that its next batches are read from, and those that it reads after them."""

    now: tuple[str, ...]
    ahead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """`kept` stays. `busy` is not to be fetched: it is on its way, or could not be fetched a moment ago."""

    here: Collection[str]
    busy: Collection[str]
    kept: Set[str]
    used: int  # bytes of what is here and on its way
    limit: int


@dataclass(frozen=True, slots=True)
class Turn:
    fetch: tuple[str, ...]
    delete: tuple[str, ...]


def plan(sizes: Mapping[str, int], disk: Disk, asks: Sequence[Ask], most: int) -> Turn:
    """At most so many to fetch. What is asked for now comes whatever the limit is: without it nothing goes on. For it
    go files that nobody asks for, then those furthest ahead.

    Files that nobody asks for come in the order of the dataset while all of it fits, or while nobody asks at all.
    """
    now = _in_turns([ask.now for ask in asks])
    asked = dict.fromkeys(chain(now, _in_turns([ask.ahead for ask in asks])))
    rest: Iterator[str] = iter(sizes) if not asks or sum(sizes.values()) <= disk.limit else iter(())
    idle = (path for path in disk.here if asks and path not in asked and path not in disk.kept)
    fetch: list[str] = []
    delete: list[str] = []
    used, urgent = disk.used, set(now)
    furthest = (path for path in reversed(asked) if path in disk.here and path not in urgent | disk.kept)
    for path in chain(asked, rest):
        if len(fetch) >= most:
            break
        if path not in sizes or path in disk.here or path in disk.busy or path in fetch:
            continue
        victims = chain(idle, furthest) if path in urgent else idle
        while used + sizes[path] > disk.limit and (victim := next(victims, None)) is not None:
            delete.append(victim)
            used -= sizes[victim]
        if used + sizes[path] > disk.limit and path not in urgent:
            break
        fetch.append(path)
        used += sizes[path]
    return Turn(tuple(fetch), tuple(delete))


def _in_turns(lists: Sequence[Sequence[str]]) -> list[str]:
    """The first of each, then the second of each."""
    return [path for row in zip_longest(*lists) for path in row if path is not None]
