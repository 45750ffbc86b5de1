"""Nodes that have nothing to train hash the files of a registration; what a lost one had taken is hashed by others."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from platform_core.distribution.content.manifest import FileDigester
from platform_core.errors import TrainmasterError
from tests.support.s3 import *  # noqa: F403
from tests.webapp.conftest import BOOTSTRAP, Cast
from tests.webapp.datasets.registering import run
from tests.webapp.jobs.conftest import cluster, submit, tick
from tests.webapp.rpc.agents import in_thread, whole_gateway
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.datasets import hashing, registration, services
from webapp.datasets.hashing import Hashed, Taken
from webapp.datasets.models import HASHING, READY, DatasetSnapshot, SourceFile
from webapp.nodes.models import Node
from webapp.rpc.wanted import wanted_states
from webapp.storage import hashing as asking

__all__ = ["cluster", "submit"]
FILES, SIZE = 24, 1 << 20


@pytest.fixture
def listed(cast: Cast, s3: str, s3_client: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A registration that is listed, and whose files are as many as asked for."""
    monkeypatch.setattr(hashing, "LEAST_FILES", 1)
    monkeypatch.setattr(hashing, "MOST_FILES", 4)
    settings.SOURCE_PREFIXES = [s3]

    def make(files: int = 8, size: int = 10) -> DatasetSnapshot:
        bucket, _, prefix = s3.removeprefix("s3://").partition("/")
        for number in range(files):
            s3_client.put_object(
                Bucket=bucket, Key=f"{prefix}/shard {number:02}.bin", Body=bytes([number]) * size
            )
        snapshot = services.register_source(actor_of(cast.owner), "vision", "images", s3, "train")
        registration.advance(snapshot.id, snapshot.step)
        snapshot.refresh_from_db()
        assert snapshot.state == HASHING
        return snapshot

    return make


def hashed(file: Taken, content: bytes, etag: str = "", sizes: Any = None) -> Hashed:
    digester = FileDigester(file.path, sizes.chunk, sizes.piece)
    digester.feed(content)
    return Hashed(file.id, etag or file.etag, json.dumps(digester.finish().as_document()).encode(), "")


def test_idle_nodes_are_asked_and_those_that_train_are_not(
    listed: Callable[..., DatasetSnapshot], cluster: list[Node], submit: Callable[..., Any]
) -> None:
    submit(num_gpus=1)
    tick()
    snapshot = listed()
    asking.ask()
    orders = {node.id: wanted_states([node.id])[0] for node in cluster}
    assert sorted(state.hashing for state in orders.values()) == [(), *[(snapshot.id,)] * 3]
    assert [state.attempts != () for state in orders.values() if not state.hashing] == [True]
    run(snapshot)
    asking.ask()
    assert wanted_states([cluster[3].id])[0].hashing == ()


def test_what_a_node_took_nobody_else_hashes_until_its_lease_is_over(
    listed: Callable[..., DatasetSnapshot], cluster: list[Node]
) -> None:
    snapshot = listed(files=6)
    asking.ask()
    first = hashing.exchange(cluster[0].id, snapshot.id, [], [])
    second = hashing.exchange(cluster[1].id, snapshot.id, [], [])
    assert (len(first.files), len(second.files)) == (4, 2)
    registration.advance(snapshot.id, DatasetSnapshot.objects.get(id=snapshot.id).step)
    assert not snapshot.sources.filter(done=True).exists()
    SourceFile.objects.filter(taken_by=cluster[1].id).update(taken_until_ms=1)
    hashing.exchange(cluster[0].id, snapshot.id, [], [file.id for file in first.files])  # renews
    registration.advance(snapshot.id, DatasetSnapshot.objects.get(id=snapshot.id).step)
    assert snapshot.sources.filter(done=True).count() == 2
    late = [hashed(file, b"other", sizes=second.sizes) for file in second.files]
    hashing.exchange(cluster[1].id, snapshot.id, late, [])
    assert DatasetSnapshot.objects.get(id=snapshot.id).files_by_nodes == 0


@pytest.mark.parametrize(
    ("content", "etag", "why"),
    [
        (b"short", "", "they are of another file"),
        (bytes(10), "other", "was listed"),
        (None, "", "no digests"),
    ],
)
def test_digests_of_other_bytes_are_not_taken_and_their_node_is_asked_no_more(
    listed: Callable[..., DatasetSnapshot], cluster: list[Node], content: bytes | None, etag: str, why: str
) -> None:
    snapshot, node = listed(), cluster[0].id
    asking.ask()
    batch = hashing.exchange(node, snapshot.id, [], [])
    file = batch.files[0]
    given = Hashed(file.id, "", b"", "") if content is None else hashed(file, content, etag, batch.sizes)
    hashing.exchange(node, snapshot.id, [given], [])
    assert why in DatasetSnapshot.objects.get(id=snapshot.id).helpers[node]
    assert not SourceFile.objects.exclude(taken_by="").exists()
    asking.ask()
    assert wanted_states([node])[0].hashing == ()
    for stranger in (node, "node-nobody"):
        with pytest.raises(TrainmasterError, match="needs no hashes of this node"):
            hashing.exchange(stranger, snapshot.id, [], [])
    assert run(snapshot).state == READY


class Agent:
    def __init__(self, address: str, data: Path) -> None:
        self.log = data.with_suffix(".log")
        self._command = [
            sys.executable, "-m", "agent.main", "--server", address, "--insecure", "--data", str(data), "--slots", "1",
            "--address", "127.0.0.1", "--hostname", data.name,
        ]  # fmt: skip

    async def start(self) -> None:
        keys = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {**keys, "TRAINMASTER_AGENT_TOKEN": BOOTSTRAP}  # it has none of the platform's keys
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*self._command, env=environment, stderr=log)

    async def killed_while(self, condition: Callable[[], bool]) -> None:
        """Between two looks it may end what it was seen to do: it is stopped first, and goes on if it has."""
        await until(condition)
        self.process.send_signal(signal.SIGSTOP)
        while not await in_thread(condition):
            self.process.send_signal(signal.SIGCONT)
            await until(condition)
            self.process.send_signal(signal.SIGSTOP)
        self.process.kill()
        await self.process.wait()


async def until(condition: Callable[[], Any], seconds: float = 90) -> Any:
    async with asyncio.timeout(seconds):
        while not (found := await in_thread(condition)):
            await asyncio.sleep(0.05)
    return found


@pytest.mark.django_db(transaction=True)
def test_two_agents_hash_a_bucket_and_one_of_them_is_killed(
    listed: Callable[..., DatasetSnapshot],
    threads_that_leave: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hashing, "LEASE_SECONDS", 6)
    monkeypatch.setattr(services, "LEASE_SECONDS", 6)
    snapshot = listed(FILES, SIZE)

    def all_done() -> bool:
        return not snapshot.sources.filter(done=False).exists()

    async def talk() -> str:
        async with whole_gateway() as address:
            agents = [Agent(address, tmp_path / name) for name in ("first", "second")]
            try:
                for agent in agents:
                    await agent.start()
                await until(lambda: Node.objects.filter(state="ready").count() == 2)
                nodes = await in_thread(lambda: dict(Node.objects.values_list("hostname", "id")))
                await in_thread(asking.ask)
                for node in nodes.values():
                    await until(snapshot.sources.filter(done=True, taken_by=node).exists)
                lost = snapshot.sources.filter(done=False, taken_by=nodes["first"])
                await agents[0].killed_while(lost.exists)
                await until(all_done)
                return nodes["second"]
            finally:
                for agent in agents:
                    if agent.process.returncode is None:
                        agent.process.kill()
                        await agent.process.wait()

    second = asyncio.run(talk())
    assert snapshot.sources.filter(taken_by=second).count() > FILES // 4
    registration.advance(snapshot.id, DatasetSnapshot.objects.get(id=snapshot.id).step)
    snapshot.refresh_from_db()
    assert (snapshot.state, snapshot.files_by_nodes) == (READY, FILES)
    digests = [file["sha256"] for file in artifacts.file_list(str(snapshot.manifest_id))]
    assert digests == [hashlib.sha256(bytes([number]) * SIZE).hexdigest() for number in range(FILES)]
