"""A loader tells the platform once what it sets aside, and leaves out what people have dropped there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from platform_core.loading.dropped import Dropped, as_text
from trainmaster import feeds
from trainmaster.data import DataLoader, JsonLines, NeedsReview, Quarantine


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an attempt, with two shards of ten lines, of which one line is no JSON."""
    data = tmp_path / "data"
    data.mkdir()
    for shard in "ab":
        lines = [json.dumps(f"{shard}{number}") for number in range(10)]
        (data / f"{shard}.jsonl").write_text(
            "\n".join(["{broken" if line == '"b3"' else line for line in lines])
        )
    monkeypatch.setenv("TRAINMASTER_DIR", str(tmp_path))
    monkeypatch.setenv("TRAINMASTER_DATA", str(data))
    feeds.forget()
    return tmp_path


def loader(work: Path, **options: Any) -> DataLoader:
    quarantine = Quarantine(most_samples=0 if options.pop("strict", False) else 5, retries=0, retry_seconds=0)
    source = JsonLines(sorted((work / "data").glob("*.jsonl")))
    return DataLoader(
        source, 4, shuffle=False, decode=json.loads, collate=list, quarantine=quarantine, **options
    )


def told(work: Path) -> list[dict[str, Any]]:
    spool = work / "spool" / "rank-0.jsonl"
    return [json.loads(line) for line in spool.read_text().splitlines()] if spool.exists() else []


def test_a_sample_is_told_with_what_it_takes_to_name_it(work: Path) -> None:
    batches = [each for batch in loader(work) for each in batch]
    assert len(batches) == 19
    (event,) = told(work)
    named = {name: event[name] for name in ("kind", "loader", "samples", "sample")}
    assert named == {"kind": "set_aside", "loader": "train", "samples": 20, "sample": 13}
    assert "JSONDecodeError" in event["reason"]


def test_a_shard_is_told_once_by_its_path_in_the_dataset(work: Path) -> None:
    feed = loader(work)
    (work / "data" / "b.jsonl").unlink()
    with pytest.raises(NeedsReview):
        list(feed)
    (event,) = told(work)
    assert (event["shard"], "sample" in event) == ("b.jsonl", False)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_dropped_is_left_out_and_counts_against_no_limit(
    work: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    dropped = Dropped(frozenset(), {("train", 20): frozenset({13})})
    monkeypatch.setenv("TRAINMASTER_DATA_DROPPED", as_text(dropped))
    assert sum(map(len, loader(work, strict=True, workers=workers))) == 19
    assert told(work) == []


def test_a_dropped_shard_is_left_out_whole_and_the_order_of_the_others_stays(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMASTER_DATA_DROPPED", as_text(Dropped(frozenset({"b.jsonl"}))))
    assert [each for batch in loader(work, strict=True) for each in batch] == [
        f"a{number}" for number in range(10)
    ]
    assert told(work) == []


def test_outside_the_platform_nobody_is_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINMASTER_DIR")
    assert sum(map(len, loader(work))) == 19
    assert told(work) == []
