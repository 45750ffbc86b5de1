"""What was registered is what is delivered: an object that was replaced since is told at once, by its name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.artifacts import upload
from agent.job_files import JobPath
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning.forest import STORE
from platform_core.node.observed import DeploymentObserved, TransferState
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.orders.test_deployments import Agent, all_complete, order
from tests.agent.transfer.rig import Node, completed, content, delivery
from tests.support.s3 import keep_versions, s3, s3_client, s3_server
from trainmaster.store import open_store
from trainmaster.store.copying import lasting_etag

__all__ = ["s3", "s3_client", "s3_server"]


@dataclass
class Bucket:
    url: str
    etags: Mapping[str, str]  # of what was registered

    def replace(self, path: str = "weights.bin") -> str:
        """The object is another of the same length from now on."""
        store = open_store(self.url)
        store.write(path, [bytes(len(FILES[path]))])
        return store.etag(path)


@pytest.fixture
def bucket(s3: str) -> Bucket:
    return registered(s3)


def registered(url: str) -> Bucket:
    store = open_store(url)
    for path, data in FILES.items():
        store.write(path, [data])
    return Bucket(url, {path: lasting_etag(store, path) for path in FILES})


async def test_an_object_that_was_replaced_fails_the_delivery_before_a_byte_of_it_is_kept(
    nodes: list[Node], bucket: Bucket, manifest: Manifest
) -> None:
    now = bucket.replace()
    nodes[0].begin(replace(delivery(manifest, bucket.url), etags=bucket.etags))
    end = await nodes[0].ended()
    assert (end.state, end.error_code) == (TransferState.FAILED, "source_changed")
    where, then = f"{bucket.url}/weights.bin", bucket.etags["weights.bin"]
    assert end.error == (
        f"{where} was changed since version 3 was registered: "
        f"the store called it {then} and calls it {now} now; register it anew"
    )
    assert (end.retries, end.refused_bytes, end.distrusted) == (1, 0, ())
    assert end.store_bytes < len(FILES["config/model.json"]) + 1


async def test_the_registered_version_is_delivered_where_the_bucket_keeps_versions(
    nodes: list[Node], s3: str, s3_client: Any, manifest: Manifest
) -> None:
    keep_versions(s3_client, s3)
    bucket = registered(s3)
    bucket.replace()
    nodes[0].begin(replace(delivery(manifest, bucket.url), etags=bucket.etags))
    end = await nodes[0].ended()
    assert completed(end), end
    assert content(nodes[0].home()) == FILES


async def test_what_neighbours_have_of_it_comes_from_them(
    nodes: list[Node], bucket: Bucket, manifest: Manifest
) -> None:
    nodes[0].begin(replace(delivery(manifest, bucket.url), etags=bucket.etags))
    assert completed(await nodes[0].ended())
    bucket.replace()
    wanted = delivery(manifest, bucket.url, nodes[0])
    nodes[1].begin(replace(wanted, etags=bucket.etags, lanes=((STORE, nodes[0].name),)))
    end = await nodes[1].ended()
    assert completed(end), end
    assert "was changed since version 3" in "".join(report.error for report in nodes[1].reports)


async def test_those_who_wait_for_each_other_all_fail(
    nodes: list[Node], bucket: Bucket, manifest: Manifest
) -> None:
    bucket.replace()
    ends = await pair(nodes, bucket, manifest)
    assert [end.error_code for end in ends] == ["source_changed"] * 2, ends


async def pair(nodes: list[Node], bucket: Bucket, manifest: Manifest) -> list[DeploymentObserved]:
    """How it ends for two, each of which pulls one lane and has the other from its neighbour."""
    for node, other, lanes in (
        (nodes[0], nodes[1], ((STORE, "node-1"), ("node-1", STORE))),
        (nodes[1], nodes[0], (("node-0", STORE), (STORE, "node-0"))),
    ):
        node.begin(replace(delivery(manifest, bucket.url, other), etags=bucket.etags, lanes=lanes))
    return await asyncio.gather(*(node.ended() for node in nodes[:2]))


async def test_an_order_with_what_is_registered_anew_heals_it(
    tmp_path: Path, bucket: Bucket, manifest: Manifest
) -> None:
    store = open_store(bucket.url)
    store.write(
        "weights.bin", [FILES["weights.bin"]], size=1 << 40
    )  # the same bytes, in another number of parts
    in_order = [bucket.etags[entry.path] for entry in manifest.files]
    old = tuple(
        etag if entry.path != "weights.bin" else "0-1"
        for entry, etag in zip(manifest.files, in_order, strict=True)
    )
    agent = Agent(tmp_path / "agent")
    await agent.start()
    wanted = order(manifest, bucket)  # type: ignore[arg-type]
    try:
        agent.deployments.receive(replace(wanted, artifact=replace(wanted.artifact, etags=old)))
        await agent.until(lambda seen: bool(seen) and seen[0].state is TransferState.FAILED)
        assert agent.deployments.observed()[0].error_code == "source_changed"
        anew = tuple(store.etag(entry.path) for entry in manifest.files)
        agent.deployments.receive(replace(wanted, artifact=replace(wanted.artifact, etags=anew)))
        await agent.until(all_complete)
    finally:
        await agent.deployments.close()


@pytest.fixture
def folder(tmp_path: Path) -> Bucket:
    return registered((tmp_path / "source").as_uri())


async def test_a_file_on_a_disk_is_known_by_its_pieces_and_read_twice_at_most(
    nodes: list[Node], folder: Bucket, manifest: Manifest
) -> None:
    folder.replace()
    nodes[0].begin(delivery(manifest, folder.url))
    end = await nodes[0].ended()
    assert (end.state, end.error_code, end.retries) == (TransferState.FAILED, "source_changed", 2)
    assert end.error == (
        f"{folder.url}/weights.bin (chunk 1, piece 0) does not have the SHA-256 of version 3, also when it is read "
        "again: it was changed or damaged there since it was registered; put the right file back, or register it anew"
    )


async def test_who_waits_for_each_other_for_a_file_that_was_replaced_on_a_disk_all_fail(
    nodes: list[Node], folder: Bucket, manifest: Manifest
) -> None:
    folder.replace()
    ends = await pair(nodes, folder, manifest)
    assert [end.error_code for end in ends] == ["source_changed"] * 2, ends


async def test_who_waits_is_brought_what_another_has_of_a_file_that_was_replaced_on_a_disk(
    nodes: list[Node], folder: Bucket, manifest: Manifest
) -> None:
    nodes[0].begin(delivery(manifest, folder.url))
    assert completed(await nodes[0].ended())
    folder.replace()
    nodes[1].begin(replace(delivery(manifest, folder.url, nodes[0]), lanes=((STORE, nodes[0].name),)))
    end = await nodes[1].ended()
    assert completed(end), end
    assert (end.distrusted, content(nodes[1].home())) == (("store",), FILES)


async def test_a_copy_of_the_file_with_another_time_is_as_good(
    nodes: list[Node], folder: Bucket, manifest: Manifest, tmp_path: Path
) -> None:
    """As on the disks of several nodes: the time, the inode and the etag differ, the bytes do not."""
    for path, data in FILES.items():
        open_store(folder.url).write(path, [data])
        os.utime(tmp_path / "source" / path, (1, 1))
    nodes[0].begin(replace(delivery(manifest, folder.url), etags=folder.etags))
    end = await nodes[0].ended()
    assert completed(end), end


def test_an_uploaded_checkpoint_is_announced_with_what_the_store_calls_it(s3: str, tmp_path: Path) -> None:
    (tmp_path / "b.pt").write_bytes(b"state")
    (tmp_path / "a.json").write_bytes(b"{}")
    uploaded = upload(JobPath(tmp_path.parent, tmp_path.name), "checkpoint", s3)
    store = open_store(s3)
    assert uploaded.etags == (store.etag("a.json"), store.etag("b.pt"))
