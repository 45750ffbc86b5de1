"""A manifest is asked for once, however many need it, for as long as somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc.aio
import pytest

from agent.identity import Identity
from agent.manifests import Manifests, ask_platform
from platform_core.distribution.content.manifest import Manifest, to_json
from platform_core.errors import TrainmasterError
from tests.agent.transfer.rig import Library, manifest_of
from tests.support.gateway import Gateway

MANIFEST = manifest_of({"weights.bin": bytes(100_000)})


class SlowLibrary(Library):
    """Answers when it is told to."""

    def __init__(self, *manifests: Manifest) -> None:
        super().__init__(*manifests)
        self.open = asyncio.Event()
        self.was_asked = asyncio.Event()
        self.given_up = 0

    async def __call__(self, manifest_id: str) -> bytes:
        self.was_asked.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await super().__call__(manifest_id)


@pytest.fixture
async def library() -> SlowLibrary:
    return SlowLibrary(MANIFEST)


@pytest.fixture
async def manifests(library: SlowLibrary, tmp_path: Path) -> Manifests:
    return Manifests(tmp_path, library)


@pytest.fixture
async def remote(gateway: Gateway, tmp_path: Path) -> AsyncIterator[Manifests]:
    """That of an agent with a session to this gateway."""

    async def identity() -> Identity:
        return Identity("node-1", "credential-of-node-1")

    async with grpc.aio.insecure_channel(gateway.address) as channel:
        yield Manifests(tmp_path, partial(ask_platform, gateway.address, channel, identity))


async def asking(manifests: Manifests, library: SlowLibrary) -> asyncio.Task[Manifest]:
    task = asyncio.create_task(manifests.get(MANIFEST.id))
    await library.was_asked.wait()
    return task


async def test_several_who_ask_share_one_request(library: SlowLibrary, manifests: Manifests) -> None:
    tasks = [await asking(manifests, library) for _ in range(3)]
    library.open.set()
    assert await asyncio.gather(*tasks) == [MANIFEST] * 3
    assert library.asked == [MANIFEST.id]


async def test_who_leaves_does_not_take_it_from_the_others(
    library: SlowLibrary, manifests: Manifests
) -> None:
    first, second = [await asking(manifests, library) for _ in range(2)]
    first.cancel()
    await asyncio.wait([first])
    library.open.set()
    assert await second == MANIFEST


async def test_a_request_ends_with_the_last_who_asked(library: SlowLibrary, manifests: Manifests) -> None:
    task = await asking(manifests, library)
    task.cancel()
    await asyncio.wait([task])
    library.open.set()
    assert await manifests.get(MANIFEST.id) == MANIFEST
    assert (library.given_up, library.asked) == (1, [MANIFEST.id])


async def test_a_silent_neighbour_does_not_keep_the_next_from_being_asked(tmp_path: Path) -> None:
    silent, next_one, platform = SlowLibrary(MANIFEST), Library(MANIFEST), Library(MANIFEST)
    manifests = Manifests(tmp_path, platform, patience=60)
    assert await manifests.get(MANIFEST.id, (silent, next_one)) == MANIFEST
    assert (silent.given_up, next_one.asked, platform.asked) == (1, [MANIFEST.id], [])


async def test_when_no_neighbour_answers_in_time_it_is_the_platform(tmp_path: Path) -> None:
    silent, platform = SlowLibrary(MANIFEST), Library(MANIFEST)
    manifests = Manifests(tmp_path, platform, patience=0.01)
    assert await manifests.get(MANIFEST.id, (silent,)) == MANIFEST
    assert (silent.given_up, platform.asked) == (1, [MANIFEST.id])


async def test_what_is_on_the_disk_is_not_asked_for(
    library: SlowLibrary, manifests: Manifests, tmp_path: Path
) -> None:
    folder = tmp_path / "transfer" / MANIFEST.id
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(to_json(MANIFEST))
    assert await manifests.get(MANIFEST.id) == MANIFEST
    assert not library.was_asked.is_set()


@pytest.mark.parametrize("text", ["{", to_json(manifest_of({"another": b"model"}))])
async def test_what_was_damaged_on_the_disk_is_asked_for_again(
    text: str, library: SlowLibrary, manifests: Manifests, tmp_path: Path
) -> None:
    folder = tmp_path / "transfer" / MANIFEST.id
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(text)
    library.open.set()
    assert await manifests.get(MANIFEST.id) == MANIFEST


async def test_another_manifest_than_the_one_asked_for_is_refused(
    library: SlowLibrary, manifests: Manifests
) -> None:
    library.texts[MANIFEST.id] = to_json(manifest_of({"another": b"model"})).encode()
    library.open.set()
    with pytest.raises(TrainmasterError, match=f"{MANIFEST.id} was asked for"):
        await manifests.get(MANIFEST.id)


async def test_a_thread_gets_it_too_and_can_stop_waiting(library: SlowLibrary, manifests: Manifests) -> None:
    def stopped() -> None:
        raise InterruptedError("it was stopped")

    with pytest.raises(InterruptedError):
        await asyncio.to_thread(manifests.wait_for, MANIFEST.id, stopped)
    library.open.set()
    assert await asyncio.to_thread(manifests.wait_for, MANIFEST.id, stopped) == MANIFEST


async def test_a_platform_that_is_away_is_waited_for(gateway: Gateway, remote: Manifests) -> None:
    gateway.artifact(MANIFEST, "file:///somewhere")
    await gateway.stop()
    task = asyncio.create_task(remote.get(MANIFEST.id))
    done, _ = await asyncio.wait([task], timeout=0.5)
    assert not done
    await gateway.restart()
    async with asyncio.timeout(20):
        assert await task == MANIFEST
    assert gateway.asked == [MANIFEST.id]


async def test_a_refusal_is_told_in_the_platform_s_words(gateway: Gateway, remote: Manifests) -> None:
    with pytest.raises(TrainmasterError, match="does not give manifest man-1: It is not wanted of this node"):
        await remote.get("man-1")
    assert gateway.asked == ["man-1"]
