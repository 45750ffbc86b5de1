"""Brings one model to this node: piece by piece from the best source that lives, verified, then moved to its home."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from agent.transfer.disk.holdings import Holdings
from agent.transfer.disk.landing import Landing
from agent.transfer.disk.whole_files import WholeFiles
from agent.transfer.orders.pull import DamagedPiece, Means, Pull, Route, Trying
from agent.transfer.orders.write_behind import fill_from
from agent.transfer.peers.link import Link
from agent.transfer.peers.neighbour import Security
from agent.transfer.store.sources import LocalSource, Registered, SourceChanged, SourceFailed, StoreSource
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.content.tiling import check_path
from platform_core.distribution.planning.forest import STORE, NodePlan
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from platform_core.node.wanted import Peer
from trainmaster.store import shown

log = logging.getLogger(__name__)

REPORT_EVERY_SECONDS = 0.5

# By lane node ids in order of preference, and the store.
Lanes: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A model version wanted on this node."""

    deployment_id: str
    manifest: Manifest = field(repr=False)
    source_url: str
    peers: tuple[Peer, ...]
    model: str  # "team/name"
    version: str
    token: str = field(default="", repr=False)
    lanes: Lanes = ()  # none: one lane, from the peers in their order, then the store
    slower: frozenset[int] = frozenset()
    # By path what the store called the files when the version was registered; those of which that is known.
    etags: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def route(self) -> Route:
        lanes = self.lanes or ((*(peer.node_id for peer in self.peers), STORE),)
        return Route(NodePlan("", lanes, self.slower), self.peers)


STORE_THREADS = 8


class Receiver:
    """`run` ends when the model is in its home, or failed: that is reported, not raised.

    Cancelling `run` keeps on disk what was verified; running again goes on from there. `reroute` gives a delivery
    under way other sources. `discard` removes it. Two deliveries of one manifest take turns: the second finds all of
    it here.
    """

    def __init__(
        self,
        holdings: Holdings,
        report: Callable[[DeploymentObserved], None],
        trying: Trying | None = None,
        security: Security | None = None,
        link: Link | None = None,
    ) -> None:
        self._holdings, self._report = holdings, report
        self._trying, self._security, self._link = trying or Trying(), security or Security(), link or Link()
        self._threads = ThreadPoolExecutor(STORE_THREADS, "store")
        self._turns: dict[str, asyncio.Lock] = {}
        self._running: dict[str, _Transfer] = {}

    async def run(self, wanted: Delivery) -> None:
        async with self._turns.setdefault(wanted.manifest.id, asyncio.Lock()):
            store = StoreSource(
                wanted.source_url, self._threads, self._trying.store_silence,
                Registered(f"version {wanted.version}", wanted.etags),
            )  # fmt: skip
            means = Means(store, wanted.token, self._trying, self._security, self._link)
            transfer = _Transfer(wanted, self._holdings, means, self._report)
            self._running[wanted.deployment_id] = transfer
            try:
                await transfer.run()
            except TrainmasterError as error:
                await transfer.failed(error)
            except Exception as error:
                log.exception("delivery %s failed", wanted.deployment_id)
                await transfer.failed(TrainmasterError("internal", f"The agent failed: {error!r}"))
            finally:
                del self._running[wanted.deployment_id]

    def reroute(
        self, deployment_id: str, peers: tuple[Peer, ...], lanes: Lanes, slower: frozenset[int]
    ) -> bool:
        """False when it is not under way, or cannot go on with these: run it anew."""
        transfer = self._running.get(deployment_id)
        return transfer is not None and transfer.reroute(peers, lanes, slower)

    async def discard(self, manifest_id: str, model: str, version: str, shared: bool = False) -> None:
        """Nothing of this delivery stays behind, finished or not; other homes of the same bytes do.

        `shared`: another delivery is busy with the same bytes, so what is not finished is kept for it.
        """
        landing = self._holdings.landing(manifest_id)
        homes = [] if landing is None else await asyncio.to_thread(landing.homes, self._holdings.data)
        if homes:
            await self._holdings.remove_home(manifest_id, home_of(model, version, self._holdings.data))
        elif not shared:
            await self._holdings.discard(manifest_id)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def home_of(model: str, version: str, data: Path) -> Path:
    return data / "models" / check_path(model) / check_path(version)


class _Transfer:
    """One call of `Receiver.run`."""

    def __init__(
        self, wanted: Delivery, holdings: Holdings, means: Means, report: Callable[[DeploymentObserved], None]
    ) -> None:
        self._wanted, self._holdings, self._means, self._report = wanted, holdings, means, report
        self._landing: Landing | None = None
        self._pull: Pull | None = None
        self._progress = DeploymentObserved(
            wanted.deployment_id, TransferState.RECEIVING, bytes_total=wanted.manifest.total_bytes
        )

    async def run(self) -> None:
        home = home_of(self._wanted.model, self._wanted.version, self._holdings.data)
        landing = self._landing = await self._holdings.open(self._wanted.manifest)
        if not landing.complete:
            await self._holdings.make_room()
            await asyncio.to_thread(self._holdings.check_space, landing)
        self._report_progress()
        ticker = asyncio.create_task(self._tick())
        try:
            if not (homes := await asyncio.to_thread(landing.homes, self._holdings.data)):
                await self._receive_and_verify(landing)
                await asyncio.to_thread(landing.settle, home, self._holdings.data)
            elif home not in homes:
                await asyncio.to_thread(landing.add_home, home, self._holdings.data)
        finally:
            ticker.cancel()
        self._report_progress(state=TransferState.COMPLETE)

    def reroute(self, peers: tuple[Peer, ...], lanes: Lanes, slower: frozenset[int]) -> bool:
        wanted = replace(self._wanted, peers=peers, lanes=lanes, slower=slower)
        if self._pull is not None and not self._pull.reroute(wanted.route):
            return False
        self._wanted = wanted
        return True

    async def failed(self, error: TrainmasterError) -> None:
        self._report_progress(state=TransferState.FAILED, error_code=error.code, error=error.sentence)
        # What is complete under another name is still served.
        landing = self._landing
        if landing is not None and not await asyncio.to_thread(landing.homes, self._holdings.data):
            await self._holdings.give_up(landing)

    # -- receiving

    async def _receive_and_verify(self, landing: Landing) -> None:
        await fill_from(LocalSource(self._holdings), landing)
        for last_chance in (False, True):
            digests = asyncio.create_task(WholeFiles(landing).wrong())
            try:
                await self._receive(landing)
                self._report_progress(state=TransferState.VERIFYING)
                wrong = await digests
            finally:
                digests.cancel()
            if not wrong:
                return
            if last_chance:
                raise TrainmasterError("verification_failed", path=wrong[0])
            # Verified pieces that do not add up to the file: the disk has lost some of them.
            log.warning("%s: %s has changed on disk", self._wanted.deployment_id, ", ".join(wrong))
            await asyncio.to_thread(landing.recheck)
            self._report_progress(state=TransferState.RECEIVING, retries=self._progress.retries + 1)

    async def _receive(self, landing: Landing) -> None:
        self._pull = Pull(landing, self._wanted.route, self._means, self._trouble, self._count)
        try:
            await self._pull.run()
        except SourceFailed as trouble:
            raise self._no_source(trouble) from trouble
        finally:
            self._pull = None

    def _count(self, source: str, size: int) -> None:
        if source == STORE:
            self._progress = replace(
                self._progress, source=source, store_bytes=self._progress.store_bytes + size
            )
        elif source != self._progress.source:
            self._progress = replace(self._progress, source=source)

    def _trouble(self, source: str, trouble: SourceFailed) -> None:
        log.warning("%s: %s", self._wanted.deployment_id, trouble)
        if isinstance(trouble, DamagedPiece) and source not in self._progress.distrusted:
            self._progress = replace(self._progress, distrusted=(*self._progress.distrusted, source))
        if isinstance(trouble, DamagedPiece):
            refused = self._progress.refused_bytes + trouble.size
            self._progress = replace(self._progress, refused_bytes=refused)
        self._report_progress(retries=self._progress.retries + 1, error=str(trouble))

    def _no_source(self, trouble: SourceFailed) -> TrainmasterError:
        if isinstance(trouble, SourceChanged):
            return TrainmasterError("source_changed", str(trouble))
        if STORE in self._progress.distrusted:
            where, version = shown(self._wanted.source_url), self._wanted.version
            remedy = f"if {where} was changed since version {version} was registered, register it anew"
            return TrainmasterError("verification_failed", f"{trouble}; {remedy}")
        sentence = f"No source can go on: {trouble}"
        return TrainmasterError("source_unavailable", sentence, source=shown(self._wanted.source_url))

    # -- reporting

    def _report_progress(self, **changes: object) -> None:
        landing = self._landing
        if landing is not None:
            changes |= {
                "chunks_done": landing.chunks_done(),
                "bytes_done": landing.bytes_done,
                "rate_in": landing.received.rate(),
                "rate_out": landing.sent.rate(),
                "held": self._pull.held() if self._pull else (),
            }
        self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
        self._report(self._progress)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_SECONDS)
            self._report_progress()
