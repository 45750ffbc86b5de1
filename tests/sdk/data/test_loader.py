"""The loader: exact through kills and resizes, and unreadable data set aside up to a limit."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk import scripts
from trainmaster import feeds
from trainmaster.data import (
    DataLoader,
    Files,
    JsonLines,
    NeedsReview,
    Parquet,
    Quarantine,
    Source,
    Tar,
    TokenBins,
)
from trainmaster.run import Run

AT_ONCE = Quarantine(retry_seconds=0)


@pytest.fixture(autouse=True)
def no_other_loaders() -> Iterator[None]:
    yield
    feeds.forget()


def together(batches: Iterable[list[Any]]) -> list[Any]:
    return [sample for batch in batches for sample in batch]


class Numbers:
    """Sample n is n, unless it is a bad one."""

    def __init__(self, count: int, bad: frozenset[int] = frozenset()) -> None:
        self._count, self._bad = count, bad

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        if index in self._bad:
            raise ValueError(f"{index} is broken")
        return index


def loader(count: int, batch: int, rank: int = 0, ranks: int = 1, **more: Any) -> DataLoader:
    feeds._feeds.pop("train", None)
    options: dict[str, Any] = {"seed": 3, "collate": list, "quarantine": AT_ONCE, **more}
    source = options.pop("source", None) or Numbers(count)
    return DataLoader(source, batch, rank=rank, world_size=ranks, **options)


@given(
    st.integers(8, 80),
    st.lists(
        st.tuples(st.integers(4, 9), st.integers(1, 4), st.integers(0, 2), st.integers(1, 4)), min_size=1
    ),
    st.sets(st.integers(0, 79), max_size=3),
)
def test_each_sample_comes_once_an_epoch(
    count: int, attempts: list[tuple[int, int, int, int]], bad: set[int]
) -> None:
    """Each attempt has its batch, ranks and workers, is killed after some steps, and the next goes on."""
    bad = {index for index in bad if index < count}
    source, state, given_out, refused = Numbers(count, frozenset(bad)), None, [], []
    for batch, ranks, workers, steps in attempts:
        states = []
        for rank in range(ranks):
            own = loader(count, batch, rank, ranks, workers=workers, source=source)
            if state is not None:
                own.load_state_dict(state)
            try:
                for _ in range(steps):
                    given_out += next(iter(own))
            except NeedsReview:  # a share of bad samples alone
                return
            refused += [item.sample for item in own.set_aside]
            states.append(own.state_dict())
        assert all(other == states[0] for other in states)
        state = states[0]

    assert state is not None
    seen = given_out + refused
    assert len(seen) == state["position"]
    for sample in range(count):
        assert state["position"] // count <= seen.count(sample) <= state["position"] // count + 1
    assert not bad & set(given_out)


@pytest.mark.parametrize("processes", [False, True])
def test_workers_change_nothing(processes: bool) -> None:
    alone = [list(loader(50, 8))]
    ahead = loader(50, 8, workers=2, processes=processes)

    assert [list(ahead)] == alone
    assert ahead.epoch == 1


def test_the_next_loop_is_the_next_epoch_in_another_order() -> None:
    feed = loader(10, 5)

    first, second = together(feed), together(feed)

    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_an_evaluation_keeps_its_last_batch_smaller() -> None:
    assert [len(batch) for batch in loader(10, 4, last="keep")] == [4, 4, 2]


def test_what_was_read_ahead_is_not_lost() -> None:
    feed = loader(100, 10, workers=2)
    next(iter(feed))
    state = feed.state_dict()

    assert state["position"] == 10
    again = loader(100, 10)
    again.load_state_dict(state)
    assert list(again) == list(feed)


def test_unreadable_samples_are_set_aside_with_the_reason() -> None:
    feed = loader(20, 10, source=Numbers(20, frozenset({4, 7})))

    assert sorted(together(feed)) == [n for n in range(20) if n not in (4, 7)]
    assert {(item.sample, item.reason) for item in feed.set_aside} == {
        (4, "ValueError: 4 is broken"),
        (7, "ValueError: 7 is broken"),
    }


def test_beyond_the_limit_a_person_has_to_look() -> None:
    feed = loader(
        40,
        20,
        source=Numbers(40, frozenset(range(10))),
        quarantine=Quarantine(most_samples=3, retry_seconds=0),
    )

    with pytest.raises(NeedsReview, match="4 samples and 0 shards could not be read; 3 samples"):
        list(feed)


def test_a_sample_that_is_readable_later_is_not_set_aside() -> None:
    failures = [OSError("away"), OSError("away")]

    def decode(sample: int) -> int:
        if sample == 5 and failures:
            raise failures.pop()
        return sample

    feed = loader(10, 5, decode=decode)

    assert sorted(together(feed)) == list(range(10))
    assert feed.set_aside == ()


def test_a_lost_shard_counts_as_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps([name, n])}\n" for n in range(50)))
    feed = loader(0, 10, source=JsonLines(str(tmp_path / "*.jsonl")), decode=json.loads)
    (tmp_path / "b.jsonl").unlink()

    assert sorted(together(feed)) == [["a", n] for n in range(50)]
    assert {item.shard for item in feed.set_aside} == {str(tmp_path / "b.jsonl")}


def test_a_shard_that_cannot_be_opened_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"no tar" * 200)
    make_tar(tmp_path / "good.tar")
    feed = loader(0, 2, source=Tar(str(tmp_path / "*.tar")), quarantine=Quarantine(most_shards=1))

    assert len(together(feed)) == 2
    assert "ReadError" in feed.set_aside[0].reason


def test_a_position_of_other_data_is_refused() -> None:
    with pytest.raises(ValueError, match="one among 10 samples, and the source has 12"):
        loader(12, 4).load_state_dict(loader(10, 4).state_dict())


def test_a_batch_must_reach_every_rank() -> None:
    with pytest.raises(ValueError, match="A global batch of 2 gives no sample to some of 4 data ranks"):
        loader(10, 2, 0, 4)


def all_of(source: Source) -> list[Any]:
    return [source[index] for index in range(len(source))]


def make_tar(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name in ("x/1.txt", "x/1.cls", "x/2.txt", "x/2.cls"):
            (path.parent / "member").write_text(name)
            tar.add(path.parent / "member", name)
    (path.parent / "member").unlink()


def test_formats(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar")
    np.arange(21, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    (tmp_path / "lines.jsonl").write_text('{"n": 1}\n\n{"n": 2}')
    from pyarrow import Table, parquet

    parquet.write_table(
        Table.from_pylist([{"n": n} for n in range(7)]), tmp_path / "a.parquet", row_group_size=3
    )

    assert all_of(Tar(tmp_path / "a.tar")) == [
        {"__key__": "x/1", "txt": b"x/1.txt", "cls": b"x/1.cls"},
        {"__key__": "x/2", "txt": b"x/2.txt", "cls": b"x/2.cls"},
    ]
    tokens = TokenBins(tmp_path / "tokens.bin", length=10)
    assert [sample.tolist() for sample in all_of(tokens)] == [list(range(11)), list(range(10, 21))]
    assert all_of(JsonLines(tmp_path / "lines.jsonl")) == [b'{"n": 1}', b'{"n": 2}']
    assert all_of(Parquet(tmp_path / "a.parquet")) == [{"n": n} for n in range(7)]
    assert all_of(Files([tmp_path / "lines.jsonl"])) == [b'{"n": 1}\n\n{"n": 2}']


def test_the_position_travels_in_a_checkpoint(on_a_laptop: Callable[..., Run]) -> None:
    feed = loader(30, 5)
    first = [next(iter(feed)) for _ in range(2)]
    on_a_laptop().save_checkpoint({"weight": 1.0}, 2, {}, blocking=True)
    rest = list(feed)

    again = loader(30, 5)
    loaded = on_a_laptop("auto").load_checkpoint()

    assert loaded == ({"weight": 1.0}, 2)
    assert list(again) == rest
    assert sorted(together(first + rest)) == list(range(30))


def test_a_loader_made_after_the_load_goes_on_too(on_a_laptop: Callable[..., Run]) -> None:
    feed = loader(30, 5)
    next(iter(feed))
    on_a_laptop().save_checkpoint({}, 1, {}, blocking=True)
    feeds.forget()

    on_a_laptop("auto").load_checkpoint()

    assert loader(30, 5).position == 5


def test_two_loaders_need_two_names() -> None:
    first = loader(10, 5)

    with pytest.raises(ValueError, match="There is a loader named train already"):
        DataLoader(Numbers(10), 5)
    assert first.position == 0


def test_the_wait_is_a_metric_of_the_run(on_a_laptop: Callable[..., Run], tmp_path: Path) -> None:
    run, feed = on_a_laptop(), loader(10, 5, source=Numbers(10, frozenset({1})))
    for step, _ in enumerate(feed):
        run.log(step, loss=1.0)
        run.log(step, accuracy=1.0)

    (file,) = tmp_path.glob("trainmaster-runs/*/events.jsonl")
    logged = [event["values"] for event in scripts.events(file, "metrics")]
    assert [feeds.WAIT in values for values in logged] == [True, False, True, False]
    assert logged[2][feeds.SET_ASIDE] == 1
