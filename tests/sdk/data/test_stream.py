"""A dataset that comes while the loader reads: waiting, asking ahead, and what never comes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_core.loading.shards import ShardOrder
from tests.sdk import scripts
from trainmaster import feeds
from trainmaster.data import (
    DataLoader,
    Files,
    JsonLines,
    NeedsReview,
    Quarantine,
    ShardUnreadable,
    TokenBins,
    wait_for,
    write_index,
)

SHARDS, EACH = 12, 5


class Agent:
    """Puts the files of a dataset into a stream when it is told to."""

    def __init__(self, folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole, self.stream, self.job = whole, folder / "stream", folder / "job"
        self.files = self.stream / "files"
        self.files.mkdir(parents=True)
        (self.job / "asks").mkdir(parents=True)
        sizes = {path.name: path.stat().st_size for path in sorted(whole.iterdir())}
        (self.stream / "listing.json").write_text(json.dumps({"files": sizes}))
        for name, value in {"DIR": self.job, "DATA": self.files, "STREAM": self.stream}.items():
            monkeypatch.setenv(f"TRAINMASTER_{name}", str(value))

    def bring(self, *names: str) -> None:
        for name in names:
            new = self.stream / f"{name}.new"
            new.write_bytes((self.whole / name).read_bytes())
            new.replace(self.files / name)

    def refuse(self, name: str, reason: str) -> None:
        (self.stream / "failed.json").write_text(json.dumps({name: reason}))

    def asked(self, loader: str = "rank-0-train") -> dict[str, list[str]]:
        asked: dict[str, list[str]] = json.loads((self.job / "asks" / f"{loader}.json").read_text())
        return asked


@pytest.fixture(autouse=True)
def no_other_loaders() -> Iterator[None]:
    yield
    feeds.forget()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    for shard in range(SHARDS):
        lines = (f"{shard * EACH + line}\n" for line in range(EACH))
        (folder / f"s{shard:02}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture
def agent(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    write_index(whole, JsonLines(f"{whole}/*.jsonl"))
    started = Agent(tmp_path, whole, monkeypatch)
    started.bring("trainmaster-index.json")
    return started


def loader(agent: Agent, **more: Any) -> DataLoader:
    options: dict[str, Any] = {"seed": 3, "collate": list, "decode": json.loads, "shards_at_once": 2, **more}
    return DataLoader(JsonLines(f"{agent.files}/*.jsonl"), 4, rank=0, world_size=1, **options)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def serve(agent: Agent, stop: threading.Event) -> None:
    """As the agent does it: what is asked for comes, and what nobody asks for goes."""
    while not stop.wait(0.005):
        try:
            asked = agent.asked()
        except FileNotFoundError:
            continue
        wanted = asked["now"] + asked["ahead"][:2]
        for path in agent.files.glob("*.jsonl"):
            if path.name not in wanted:
                path.unlink()
        agent.bring(*(name for name in wanted if not (agent.files / name).exists()))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_sample_comes_once_though_few_shards_are_here_at_a_time(agent: Agent, workers: int) -> None:
    stop = threading.Event()
    serving = in_background(lambda: serve(agent, stop))
    its = loader(agent, workers=workers, last="keep")
    for _ in range(2):
        samples = [sample for batch in its for sample in batch]
        assert sorted(samples) == list(range(SHARDS * EACH))
    stop.set()
    serving.join()
    assert not its.set_aside


def test_the_order_is_that_of_a_laptop_which_has_all_shards(
    agent: Agent, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.bring(*(path.name for path in whole.glob("*.jsonl")))
    streamed = [sample for batch in loader(agent, last="keep", name="a") for sample in batch]
    for name in ("DIR", "DATA", "STREAM"):
        monkeypatch.delenv(f"TRAINMASTER_{name}")
    here = DataLoader(
        JsonLines(f"{whole}/*.jsonl"),
        4,
        seed=3,
        decode=json.loads,
        collate=list,
        shards_at_once=2,
        last="keep",
    )
    assert streamed == [sample for batch in here for sample in batch]


def test_a_loader_asks_for_its_next_shards_and_waits_for_them(agent: Agent) -> None:
    its = loader(agent)
    batches: list[list[int]] = []
    reading = in_background(lambda: batches.append(next(iter(its))))
    while not (agent.job / "asks" / "rank-0-train.json").exists():
        pass
    asked = agent.asked()
    assert (len(asked["now"]), len(asked["ahead"])) == (2, 8)
    assert not batches
    agent.bring(*asked["now"])
    reading.join()
    assert len(batches[0]) == 4
    assert feeds.measures()[feeds.WAIT] > 0


def test_a_resumed_loader_asks_for_the_shards_of_its_position(agent: Agent, whole: Path) -> None:
    agent.bring(*(path.name for path in whole.glob("*.jsonl")))
    first = loader(agent, name="first", last="keep")
    batches = list(first)
    resumed = loader(agent, name="train", last="keep", seed=9)
    resumed.load_state_dict({**first.state_dict(), "position": 40})
    assert next(iter(resumed)) == batches[10]
    order: Any = first.order
    assert agent.asked()["now"] == [f"s{shard:02}.jsonl" for shard in order.shards(*order.group(40))]


def test_a_shard_that_cannot_be_had_is_set_aside_with_its_reason(agent: Agent, whole: Path) -> None:
    agent.bring(*(path.name for path in whole.glob("*.jsonl") if path.name != "s03.jsonl"))
    agent.refuse("s03.jsonl", "s03.jsonl does not have its digest")
    its = loader(agent, last="keep", quarantine=Quarantine(retry_seconds=0))
    samples = [sample for batch in its for sample in batch]
    assert sorted(samples) == [number for number in range(SHARDS * EACH) if number // EACH != 3]
    assert {(Path(item.shard).name, item.reason) for item in its.set_aside} == {
        ("s03.jsonl", "s03.jsonl does not have its digest")
    }


def test_an_index_that_is_wrong_is_said(agent: Agent, whole: Path) -> None:
    (agent.whole / "s03.jsonl").write_text("1\n")
    agent.bring(*(path.name for path in whole.glob("*.jsonl")))
    its = loader(agent, last="keep", quarantine=Quarantine(most_shards=0, retry_seconds=0))
    with pytest.raises(
        NeedsReview, match="1 samples, and 5 were counted; write the index of the dataset anew"
    ):
        list(its)


def test_shards_without_an_index_are_waited_for(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path, whole, monkeypatch)
    sources: list[JsonLines] = []
    making = in_background(lambda: sources.append(JsonLines(f"{agent.files}/**/*.jsonl")))
    agent.bring(*(path.name for path in sorted(whole.iterdir())))
    making.join()
    assert len(sources[0]) == SHARDS * EACH


def test_the_sizes_of_token_files_are_enough_to_know_their_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tokens"
    folder.mkdir()
    for number in range(2):
        (folder / f"t{number}.bin").write_bytes(bytes(2 * 9))
    agent = Agent(tmp_path, folder, monkeypatch)
    source = TokenBins(f"{agent.files}/*.bin", length=4)
    assert len(source) == 4
    agent.bring("t1.bin")
    assert source[3].tolist() == [0] * 5


def test_a_source_of_ones_own_waits_for_a_file(agent: Agent) -> None:
    agent.refuse("s01.jsonl", "gone")
    with pytest.raises(ShardUnreadable, match="gone"):
        wait_for(agent.files / "s01.jsonl")
    agent.bring("s02.jsonl")
    assert wait_for(agent.files / "s02.jsonl").exists()
    assert wait_for("somewhere/else") == Path("somewhere/else")


def test_files_that_are_samples_are_read_in_larger_groups(agent: Agent, whole: Path) -> None:
    agent.bring(*(path.name for path in whole.glob("*.jsonl")))
    its = DataLoader(Files(f"{agent.files}/*.jsonl"), 4, seed=1, collate=list, last="keep")
    assert sum(map(len, its)) == SHARDS
    assert its.state_dict()["shards_at_once"] == 1024


def test_groups_of_shards_need_a_source_of_shards() -> None:
    with pytest.raises(ValueError, match="a list has no shards"):
        DataLoader([1, 2, 3], 1, shards_at_once=2)


LEAVES_EARLY = """
import json, sys
from trainmaster.data import DataLoader, JsonLines
loader = DataLoader(
    JsonLines(f"{sys.argv[1]}/*.jsonl"), 4, seed=3, decode=json.loads, workers=2, shards_at_once=1,
    processes=sys.argv[2] == "processes",
)
print(len(next(iter(loader))), flush=True)
"""


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_shard_that_never_comes_keeps_no_process_from_its_end(
    agent: Agent, tmp_path: Path, kind: str
) -> None:
    """The loader reads ahead, and the script has enough."""
    first = loader(agent, shards_at_once=1)
    order = first.order
    assert isinstance(order, ShardOrder)
    agent.bring(*(f"s{shard:02}.jsonl" for shard in order.shards(0, 0)))
    (tmp_path / "train.py").write_text(LEAVES_EARLY)
    variables = {
        "TRAINMASTER_DIR": agent.job, "TRAINMASTER_DATA": agent.files, "TRAINMASTER_STREAM": agent.stream,
    }  # fmt: skip
    done = scripts.run(["train.py", str(agent.files), kind], tmp_path, **variables)
    assert done.stdout == "4\n"
