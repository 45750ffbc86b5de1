"""A real agent brings a dataset shard by shard to a real job that reads it with the loader."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tests.agent.conftest import AgentProcess, gone, stop, wanted
from tests.support.gateway import Gateway
from trainmaster.data import JsonLines, write_index
from trainmaster.store.copying import describe

SHARDS, EACH, SIZE = 10, 4, 300_000
TRAIN = """
import json, os, sys
from pathlib import Path
from trainmaster.data import DataLoader, JsonLines

data = Path(os.environ["TRAINMASTER_DATA"])
print("begins with", len(list(data.glob("*.jsonl"))), flush=True)
loader = DataLoader(JsonLines(data / "*.jsonl"), 4, seed=1, decode=lambda line: json.loads(line)["id"],
                    collate=list, shards_at_once=2, last="keep")
most = 0
for epoch in range(2):
    ids = []
    for batch in loader:
        ids += batch
        most = max(most, len(list(data.glob("*.jsonl"))))
    print("epoch", sorted(ids) == list(range(40)), flush=True)
    if len(sys.argv) > 1 and epoch == 0:
        while not os.path.exists(sys.argv[1]):
            pass
print("most", most, "set aside", len(loader.set_aside), flush=True)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for shard in range(SHARDS):
        rows = ({"id": shard * EACH + row, "text": "x" * SIZE} for row in range(EACH))
        (folder / f"s{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_index(folder, JsonLines(f"{folder}/*.jsonl"))
    (tmp_path / "train.py").write_text(TRAIN)
    return folder


def launch(gateway: Gateway, source: Path) -> dict[str, object]:
    manifest, url, _ = describe(source.as_uri(), "dataset")
    return {"dataset": gateway.artifact(manifest, url), "stream_dataset": True}


async def test_a_job_begins_with_a_shard_and_reads_all_on_a_part_of_the_disk(
    gateway: Gateway, agent: AgentProcess, source: Path, tmp_path: Path
) -> None:
    await agent.start("--stream-disk-mib", "6")
    job = wanted("att-test-1", "python", str(tmp_path / "train.py"), **launch(gateway, source))
    await gateway.want(job)
    ended = await gateway.until_drained("att-test-1")
    log = gateway.log("att-test-1", 0)
    assert ended.exit_code == 0, log + agent.log()
    first, *epochs, last = log.splitlines()
    assert 1 <= int(first.split()[-1]) < SHARDS
    assert epochs == ["epoch True", "epoch True"]
    assert int(last.split()[1]) <= 6
    assert last.endswith("set aside 0")

    await gateway.want()
    await gone(agent.data / "streams" / "att-test-1")


FORMATS = """
import json, os, sys
from pathlib import Path
from trainmaster.data import DataLoader, JsonLines, Parquet, Tar

data, kind, stop = Path(os.environ["TRAINMASTER_DATA"]), sys.argv[1], int(sys.argv[2])
source, number = {
    "jsonl": (JsonLines, lambda line: json.loads(line)["id"]),
    "tar": (Tar, lambda sample: int(sample["id"])),
    "parquet": (Parquet, lambda row: row["id"]),
}[kind]
loader = DataLoader(source(data / f"*.{kind}"), 4, seed=1, decode=number, collate=list, shards_at_once=2, last="keep")
state = Path(sys.argv[3])
ids = []
if state.exists():
    before = json.loads(state.read_text())
    loader.load_state_dict(before["state"])
    ids = before["ids"]
for batch in loader:
    ids += batch
    if len(ids) == stop:
        state.write_text(json.dumps({"state": loader.state_dict(), "ids": ids}))
        break
counted = sum(len(file.read_text().splitlines()) for file in Path("../counts").glob("*.jsonl"))
print("counted", counted, "read", len(ids), "each once", sorted(ids) == list(range(len(set(ids)))), flush=True)
"""


def write_shard(file: Path, ids: range) -> None:
    if file.suffix == ".tar":
        with tarfile.open(file, "w") as tar:
            for number in ids:
                for name, content in (
                    (f"{number:03}.id", str(number).encode()),
                    (f"{number:03}.txt", b"x" * SIZE),
                ):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    elif file.suffix == ".parquet":
        text = [random.Random(number).randbytes(SIZE // 2).hex() for number in ids]
        pyarrow.parquet.write_table(pyarrow.table({"id": list(ids), "text": text}), file)
    else:
        file.write_text("".join(json.dumps({"id": number, "text": "x" * SIZE}) + "\n" for number in ids))


@pytest.mark.parametrize("kind", ["jsonl", "tar", "parquet"])
async def test_shards_without_an_index_are_counted_once_and_resumed_exactly(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    for shard in range(SHARDS):
        write_shard(folder / f"s{shard}.{kind}", range(shard * EACH, (shard + 1) * EACH))
    (tmp_path / "read.py").write_text(FORMATS)
    await agent.start("--stream-disk-mib", "6")
    said = []
    for number, stop_at in ((1, 16), (2, 0)):
        name = f"att-test-{number}"
        script = ("python", str(tmp_path / "read.py"), kind, str(stop_at), str(tmp_path / "state.json"))
        await gateway.want(wanted(name, *script, **launch(gateway, folder)))
        ended = await gateway.until_drained(name)
        assert ended.exit_code == 0, gateway.log(name, 0) + agent.log()
        said.append(gateway.log(name, 0).splitlines()[-1])
        await gateway.want()
        await gone(agent.data / "streams" / name)
    assert said == ["counted 10 read 16 each once False", "counted 0 read 40 each once True"]


async def test_a_killed_agent_goes_on_with_the_stream_when_it_is_back(
    gateway: Gateway, agent: AgentProcess, source: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    await agent.start("--stream-disk-mib", "6")
    command = ("python", str(tmp_path / "train.py"), str(go_on))
    await gateway.want(wanted("att-test-2", *command, **launch(gateway, source)))
    await gateway.until(lambda: "epoch True" in gateway.log("att-test-2", 0))
    await agent.kill()
    go_on.touch()
    await agent.start("--stream-disk-mib", "6")
    ended = await gateway.until_drained("att-test-2")
    assert ended.exit_code == 0
    assert gateway.log("att-test-2", 0).count("epoch True") == 2


async def test_a_shard_that_is_damaged_in_the_store_is_set_aside_and_the_job_goes_on(
    gateway: Gateway, agent: AgentProcess, source: Path, tmp_path: Path
) -> None:
    asked = launch(gateway, source)
    damaged = bytearray((source / "s7.jsonl").read_bytes())
    damaged[100] ^= 1
    (source / "s7.jsonl").write_bytes(damaged)
    await agent.start()
    await gateway.want(wanted("att-test-3", "python", str(tmp_path / "train.py"), **asked))
    ended = await gateway.until_drained("att-test-3")
    log = gateway.log("att-test-3", 0)
    assert ended.exit_code == 0, log
    assert "s7.jsonl" in log
    assert "epoch False" in log
    assert "set aside 8" in log


async def test_a_source_that_is_not_there_ends_the_job_before_it_starts(
    gateway: Gateway, agent: AgentProcess, source: Path, tmp_path: Path
) -> None:
    asked = launch(gateway, source)
    (source / "s0.jsonl").unlink()
    await agent.start()
    await gateway.want(wanted("att-test-4", "python", str(tmp_path / "train.py"), **asked))
    ended = await gateway.until_drained("att-test-4")
    assert "Could not fetch dataset" in ended.reason
    assert "s0.jsonl" in ended.reason
    await gateway.want(stop("att-test-4", grace_seconds=1))
