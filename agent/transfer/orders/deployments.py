"""Carries out the deployments wanted of this node: one delivery for each order."""

from __future__ import annotations

import asyncio
import hmac
import importlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import grpc
import grpc.aio

from agent.files import read_json, write_atomically
from agent.manifests import Ask, Manifests
from agent.transfer.disk.cache import Cache, Standing, Watermarks
from agent.transfer.disk.holdings import Holdings
from agent.transfer.orders.pull import Trying
from agent.transfer.orders.receiver import Delivery, Receiver
from agent.transfer.peers.link import Link
from agent.transfer.peers.neighbour import Security, ask_neighbour
from agent.transfer.peers.server import serve
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning.forest import STORE
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from platform_core.node.wanted import DeploymentWanted

log = logging.getLogger(__name__)

# A failed delivery is tried again by itself while it is wanted: disks are emptied and stores come back.
TRY_AGAIN_SECONDS = (30.0, 60.0, 120.0, 300.0, 600.0)
REPORT_SENDING_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Trust:
    """How other nodes are known, and how it is known that the platform signed a manifest's id (None: not asked)."""

    security: Security
    is_signed: Callable[[str, bytes], bool] | None = None


@dataclass(slots=True)
class _Known:
    """One deployment: its order (None after a restart, until it is repeated), progress and work under way."""

    order: DeploymentWanted | None
    progress: DeploymentObserved
    task: asyncio.Task[None] | None = None
    manifest_id: str = ""
    pinned: bool = False
    preheat: bool = False

    @property
    def under_way(self) -> bool:
        return self.task is not None and not self.task.done()


class Deployments:
    """`start` first. The calls of the session (`observed`, `receive`, `drop`) never block."""

    def __init__(
        self,
        data: Path,
        manifests: Manifests,
        changed: Callable[[], None],
        trust: Trust | None = None,
        caps: tuple[int, int] = (0, 0),
        trying: Trying | None = None,
        marks: Watermarks = Watermarks(),
        in_use: Callable[[], Collection[Path]] = tuple,
        vacate: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        """`caps`: bytes per second in and out, 0 is none. `in_use`: the folders of models that never go for room.
        `vacate` is awaited before a version of a model that is no longer wanted is removed."""
        self._records = data / "transfer" / "deployments"
        self._data, self._changed, self._vacate = data, changed, vacate
        self._manifests = manifests
        self._holdings = Holdings(data)
        self._links = Link(caps[0]), Link(caps[1])
        self._trust = trust or Trust(Security())
        self._receiver = Receiver(
            self._holdings, self._reported, trying, self._trust.security, self._links[0]
        )
        self._known: dict[str, _Known] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._cache = Cache(self._holdings, marks, self._standings, in_use, self._evicted)
        self._holdings.make_room = self._cache.make_room
        self._watching: list[asyncio.Task[None]] = []
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> int:
        """Serves what this node holds; the port on which it does. OSError when the port is taken."""
        await asyncio.to_thread(self._load)
        # The first delivery shall not wait for a module that most stores need.
        await asyncio.to_thread(importlib.import_module, "trainmaster.store.http")
        try:
            self._server, port = await serve(
                self._holdings, self._authorised, f"{host}:{port}", credentials, self._links[1]
            )
        except RuntimeError as error:
            raise OSError(f"Port {port} for moving models cannot be opened: {error}") from error
        self._watching = [asyncio.create_task(work) for work in (self._cache.watch(), self._report_sending())]
        return port

    async def close(self) -> None:
        """Deliveries stop where they are; the next start goes on with them."""
        tasks = [known.task for known in self._known.values() if known.task is not None]
        tasks += self._watching
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._removals, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(grace=0)
        self._holdings.close()
        self._receiver.close()

    # -- what the session asks for

    def observed(self) -> tuple[DeploymentObserved, ...]:
        return tuple(replace(known.progress, acting_on=known.order) for known in self._known.values())

    def holds(self, model: str, version: str) -> bool:
        """Whether it is here, verified."""
        return any(
            known.order is not None
            and (known.order.model, known.order.version) == (model, version)
            and known.progress.state is TransferState.COMPLETE
            for known in self._known.values()
        )

    def want(self, wanted: DeploymentWanted) -> None:
        """As `receive`, unless that is under way or complete here from an earlier order."""
        known = self._known.get(wanted.deployment_id)
        if known is None:
            self.receive(wanted)
        elif known.progress.state is TransferState.COMPLETE:
            known.order = wanted  # the nodes of a later gang show its token
        elif not known.under_way or known.progress.state is TransferState.FAILED:
            known.progress = DeploymentObserved(wanted.deployment_id, TransferState.IDLE)
            self._begin(wanted, known)

    def prefetch(self, wanted: DeploymentWanted) -> None:
        """Once: what failed or was evicted is fetched by whoever needs it."""
        known = self._known.get(wanted.deployment_id)
        if known is None or (not known.under_way and known.progress.state is TransferState.IDLE):
            self.receive(wanted)

    def progress(self, deployment_id: str) -> DeploymentObserved:
        known = self._known.get(deployment_id)
        return known.progress if known is not None else DeploymentObserved(deployment_id, TransferState.IDLE)

    def manifest_here(self, manifest_id: str) -> Manifest | None:
        landing = self._holdings.landing(manifest_id)
        return landing.manifest if landing is not None else None

    def held(self, manifest_id: str) -> tuple[Manifest, Path] | None:
        """What is here of a manifest, and the folder of its files; None: nothing."""
        landing = self._holdings.landing(manifest_id)
        return (landing.manifest, landing.files) if landing is not None else None

    async def evict(self, manifest_id: str, reason: str) -> None:
        """Removes a complete manifest whose files cannot be trusted any more."""
        self._evicted(manifest_id, reason)
        await self._holdings.remove_complete(manifest_id)

    def receive(self, wanted: DeploymentWanted) -> None:
        """Begins, or goes on with other sources; what was verified is kept."""
        for link in self._links:
            link.order(wanted.artifact.manifest_id, wanted.share)
        before = self._known.get(wanted.deployment_id)
        if before is not None and before.order is not None and self._rerouted(before.order, wanted):
            before.order = wanted
            return
        if (
            before is not None
            and before.order is not None
            and before.progress.state is TransferState.COMPLETE
        ):
            # There is nothing to fetch: it may have been pinned, or is of use by now.
            before.order, before.pinned, before.preheat = wanted, wanted.pinned, wanted.preheat
            self._keep_record(before)
            self._changed()
            return
        self._begin(wanted, before)

    def _begin(self, wanted: DeploymentWanted, before: _Known | None) -> None:
        progress = before.progress if before else DeploymentObserved(wanted.deployment_id, TransferState.IDLE)
        known = _Known(wanted, progress, None, wanted.artifact.manifest_id, wanted.pinned, wanted.preheat)
        self._known[wanted.deployment_id] = known
        known.task = asyncio.create_task(self._deliver(known, wanted, before.task if before else None))

    def drop(self, deployment_id: str) -> None:
        """Stops it and removes what it brought, unless another deployment wants the same."""
        if (known := self._known.pop(deployment_id, None)) is not None:
            for link in self._links:
                link.forget(known.manifest_id)
            task = asyncio.create_task(self._remove(deployment_id, known))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    # -- carrying out

    async def _deliver(
        self, known: _Known, wanted: DeploymentWanted, earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            earlier.cancel()
            await asyncio.gather(earlier, return_exceptions=True)
        await asyncio.gather(*self._removals, return_exceptions=True)
        await self._cache.settled()
        try:
            delivery = await self._delivery(wanted)
            self._keep_record(known)
        except TrainmasterError as error:
            self._holdings.given_up.add(known.manifest_id)
            failed = replace(
                known.progress, state=TransferState.FAILED, error_code=error.code, error=error.sentence
            )
            self._reported(failed)
            return
        for pause in (*TRY_AGAIN_SECONDS, TRY_AGAIN_SECONDS[-1]):
            await self._receiver.run(delivery)
            if known.progress.state is TransferState.COMPLETE:
                return
            await asyncio.sleep(pause)
        log.warning("%s: given up until it is ordered again", wanted.deployment_id)

    def _rerouted(self, earlier: DeploymentWanted, wanted: DeploymentWanted) -> bool:
        """Whether only the sources or the share of the link differ, so that the delivery under way goes on."""
        same = replace(
            wanted, peers=earlier.peers, lanes=earlier.lanes, slower=earlier.slower, share=earlier.share
        )
        return same == earlier and self._receiver.reroute(
            wanted.deployment_id, wanted.peers, wanted.lanes, wanted.slower
        )

    async def _delivery(self, wanted: DeploymentWanted) -> Delivery:
        manifest_id = wanted.artifact.manifest_id
        if self._trust.is_signed and not self._trust.is_signed(manifest_id, wanted.signature):
            raise TrainmasterError("manifest_invalid", why=f"{manifest_id} is not signed by the platform")
        if (landing := self._holdings.landing(manifest_id)) is not None:
            manifest = landing.manifest
        else:
            manifest = await self._manifests.get(manifest_id, self._neighbours(wanted))
        return Delivery(
            deployment_id=wanted.deployment_id,
            manifest=manifest,
            source_url=wanted.artifact.source_url,
            etags=wanted.artifact.etags_of(manifest),
            peers=wanted.peers,
            model=wanted.model,
            version=wanted.version,
            token=wanted.transfer_token,
            lanes=wanted.lanes,
            slower=wanted.slower,
        )

    def _neighbours(self, wanted: DeploymentWanted) -> tuple[Ask, ...]:
        """The first node of each lane, which has the manifest earlier. None where the store feeds a lane: this node
        then asks the platform, for all nodes behind it in that lane."""
        lanes = wanted.lanes or (tuple(peer.node_id for peer in wanted.peers),)
        firsts = [lane[0] for lane in lanes if lane]
        if not firsts or STORE in firsts:
            return ()
        peers = {peer.node_id: peer for peer in wanted.peers}
        near = [peers[name] for name in dict.fromkeys(firsts) if name in peers]
        ask = partial(ask_neighbour, self._trust.security, wanted.transfer_token)
        return tuple(partial(ask, peer) for peer in near)

    async def _remove(self, deployment_id: str, known: _Known) -> None:
        if known.task is not None:
            known.task.cancel()
            await asyncio.gather(known.task, return_exceptions=True)
        path = self._records / f"{deployment_id}.json"
        record = await asyncio.to_thread(read_json, path)
        if record is not None:
            manifest_id, model, version = record["manifest_id"], record["model"], record["version"]
            orders = [known.order for known in self._known.values() if known.order is not None]
            same = [order for order in orders if order.artifact.manifest_id == manifest_id]
            # A newer deployment of the same version takes the files over.
            if all((order.model, order.version) != (model, version) for order in same):
                if self._vacate is not None:
                    await self._vacate(model, version)
                await self._receiver.discard(manifest_id, model, version, shared=bool(same))
        path.unlink(missing_ok=True)

    async def _report_sending(self) -> None:
        """Reports, for ever, the rate at which complete models are passed on; deliveries report only until then."""
        while True:
            await asyncio.sleep(REPORT_SENDING_SECONDS)
            for known in list(self._known.values()):
                landing = self._holdings.landing(known.manifest_id)
                if landing is not None and known.progress.state is TransferState.COMPLETE:
                    progress = replace(known.progress, rate_in=0.0, rate_out=landing.sent.rate())
                    if progress != known.progress:
                        self._reported(progress)

    # -- inside

    def _load(self) -> None:
        """Loads the records of earlier processes. Nothing is fetched until the session repeats the orders."""
        self._holdings.load()
        for path in sorted(self._records.glob("*.json")):
            if (record := read_json(path)) is None:
                path.unlink(missing_ok=True)
                continue
            landing = self._holdings.landing(record["manifest_id"])
            if reason := record.get("evicted", ""):
                progress = DeploymentObserved(path.stem, TransferState.EVICTED, error=reason)
            elif landing is None:
                progress = DeploymentObserved(path.stem, TransferState.IDLE)
            else:
                size = landing.manifest.total_bytes
                chunks = landing.chunks_done()
                progress = DeploymentObserved(path.stem, TransferState.COMPLETE, size, size, chunks)
            pinned, preheat = record.get("pinned", False), record.get("preheat", False)
            self._known[path.stem] = _Known(None, progress, None, record["manifest_id"], pinned, preheat)

    def _keep_record(self, known: _Known, evicted: str = "") -> None:
        """For the next process, which may have to do without the control plane for a while."""
        self._records.mkdir(parents=True, exist_ok=True)
        path = self._records / f"{known.progress.deployment_id}.json"
        if known.order is None:
            record = read_json(path) or {}
        else:
            record = {"model": known.order.model, "version": known.order.version}
        record |= {"manifest_id": known.manifest_id, "pinned": known.pinned, "preheat": known.preheat}
        write_atomically(path, json.dumps(record | {"evicted": evicted}).encode())

    def _standings(self) -> Mapping[str, Standing]:
        by_manifest: dict[str, list[_Known]] = {}
        for known in self._known.values():
            by_manifest.setdefault(known.manifest_id, []).append(known)
        return {
            manifest_id: Standing(
                pinned=any(known.pinned for known in of_it),
                preheated=all(known.preheat for known in of_it),
                under_way=any(known.under_way for known in of_it),
            )
            for manifest_id, of_it in by_manifest.items()
        }

    def _evicted(self, manifest_id: str, reason: str) -> None:
        for known in self._known.values():
            if known.manifest_id == manifest_id:
                self._keep_record(known, evicted=reason)
                gone = DeploymentObserved(known.progress.deployment_id, TransferState.EVICTED, error=reason)
                self._reported(replace(gone, bytes_total=known.progress.bytes_total))

    def _reported(self, progress: DeploymentObserved) -> None:
        known = self._known.get(progress.deployment_id)
        if known is not None:
            known.progress = progress
            self._changed()

    def _authorised(self, token: str) -> bool:
        tokens = [known.order.transfer_token for known in self._known.values() if known.order is not None]
        return any(each and hmac.compare_digest(each.encode(), token.encode()) for each in tokens)
