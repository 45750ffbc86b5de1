"""What people have dropped from a dataset: loaders leave it out, and it counts against no limit.

A sample is named by its loader and the number of samples that the loader's source has, for its index means nothing in
another source. The text is one environment variable of a job, so it has a bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MOST_SHARDS, MOST_SAMPLES = 500, 5_000


@dataclass(frozen=True, slots=True)
class Item:
    """A shard (`sample` is None), or a sample of a loader whose source has `samples` of them."""

    shard: str = ""
    loader: str = ""
    samples: int = 0
    sample: int | None = None

    def __str__(self) -> str:
        return self.shard or f"sample {self.sample:,} of {self.samples:,} of the loader {self.loader}"


@dataclass(frozen=True, slots=True)
class Dropped:
    shards: frozenset[str] = frozenset()
    samples: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)

    def of_loader(self, loader: str, samples: int) -> frozenset[int]:
        return self.samples.get((loader, samples), frozenset())


NONE = Dropped()


def collect(items: Iterable[Item]) -> Dropped:
    """As many as the bounds allow, in their order; the others stay set aside by each job anew."""
    shards: list[str] = []
    samples: dict[tuple[str, int], set[int]] = {}
    count = 0
    for item in items:
        if item.sample is None:
            shards += [item.shard] if len(shards) < MOST_SHARDS else []
        elif count < MOST_SAMPLES:
            samples.setdefault((item.loader, item.samples), set()).add(item.sample)
            count += 1
    return Dropped(frozenset(shards), {key: frozenset(numbers) for key, numbers in samples.items()})


def as_text(dropped: Dropped) -> str:
    """ "" where nothing is dropped."""
    if not dropped.shards and not dropped.samples:
        return ""
    samples = [[*key, sorted(numbers)] for key, numbers in sorted(dropped.samples.items())]
    return json.dumps({"shards": sorted(dropped.shards), "samples": samples}, separators=(",", ":"))


def from_text(text: str) -> Dropped:
    """ValueError for anything that `as_text` did not write."""
    if not text:
        return NONE
    try:
        given = json.loads(text)
        samples = {
            (str(loader), int(count)): frozenset(map(int, numbers))
            for loader, count, numbers in given["samples"]
        }
        return Dropped(frozenset(map(str, given["shards"])), samples)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"what was dropped from the dataset cannot be read: {text[:80]!r} ({error})"
        ) from error
