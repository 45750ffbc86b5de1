"""Brings one model to this node: piece by piece from the best source that lives, verified, then moved to its home."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc

from agent.transfer.holdings import Holdings
from agent.transfer.landing import Landing
from agent.transfer.peer import Patience, PeerSource
from agent.transfer.progress import STORE, Progress, TransferState
from agent.transfer.sources import RANGES_IN_FLIGHT, LocalSource, Source, SourceFailed, StoreSource
from platform_core.distribution.manifest import Manifest, Piece
from platform_core.distribution.tiling import check_path
from platform_core.errors import TrainmasterError
from trainmaster.store import shown

log = logging.getLogger(__name__)

REPORT_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Peer:
    node_id: str
    address: str  # host:port of its ChunkTransfer


@dataclass(frozen=True, slots=True)
class Delivery:
    """A model version wanted on this node."""

    deployment_id: str
    manifest: Manifest = field(repr=False)
    source_url: str
    predecessors: tuple[Peer, ...]  # nearest first; the store comes after the last
    model: str  # "team/name"
    version: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Trying:
    """All sources are tried in turn; when none could go on, after a pause, once more for each pause."""

    pauses: tuple[float, ...] = (1.0, 2.0, 4.0)
    patience: Patience = field(default_factory=Patience)


class Receiver:
    """`run` ends when the model is in its home, or failed: that is reported, not raised.

    Cancelling `run` keeps on disk what was verified; running again goes on from there, with other predecessors
    perhaps. `discard` removes it. Two deliveries of one manifest take turns: the second finds all of it here.
    """

    def __init__(
        self,
        holdings: Holdings,
        report: Callable[[Progress], None],
        trying: Trying | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._holdings, self._report = holdings, report
        self._trying, self._credentials = trying or Trying(), credentials
        self._threads = ThreadPoolExecutor(RANGES_IN_FLIGHT, "store")
        self._turns: dict[str, asyncio.Lock] = {}

    async def run(self, wanted: Delivery) -> None:
        async with self._turns.setdefault(wanted.manifest.id, asyncio.Lock()):
            transfer = _Transfer(wanted, self._holdings, self._report)
            try:
                sources = self._sources(wanted)
                await transfer.run(sources, self._trying.pauses)
            except TrainmasterError as error:
                await transfer.failed(error)
            except Exception as error:
                log.exception("delivery %s failed", wanted.deployment_id)
                await transfer.failed(TrainmasterError("internal", f"The agent failed: {error!r}"))

    def _sources(self, wanted: Delivery) -> list[Source]:
        peers = [
            PeerSource(peer.node_id, peer.address, wanted.token, self._trying.patience, self._credentials)
            for peer in wanted.predecessors
        ]
        return [*peers, StoreSource(wanted.source_url, self._threads)]

    async def discard(self, manifest_id: str, model: str, version: str, shared: bool = False) -> None:
        """Nothing of this delivery stays behind, finished or not; other homes of the same bytes do.

        `shared`: another delivery is busy with the same bytes, so what is not finished is kept for it.
        """
        landing = self._holdings.landing(manifest_id)
        if landing is not None and landing.homes(self._holdings.data):
            await self._holdings.remove_home(manifest_id, home_of(model, version, self._holdings.data))
        elif not shared:
            await self._holdings.discard(manifest_id)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def home_of(model: str, version: str, data: Path) -> Path:
    return data / "models" / check_path(model) / check_path(version)


class _Transfer:
    """One call of `Receiver.run`."""

    def __init__(self, wanted: Delivery, holdings: Holdings, report: Callable[[Progress], None]) -> None:
        self._wanted, self._holdings, self._report = wanted, holdings, report
        self._landing: Landing | None = None
        self._progress = Progress(
            wanted.deployment_id, TransferState.RECEIVING, bytes_total=wanted.manifest.total_bytes
        )

    async def run(self, sources: Sequence[Source], pauses: Sequence[float]) -> None:
        home = home_of(self._wanted.model, self._wanted.version, self._holdings.data)
        landing = self._landing = await self._holdings.open(self._wanted.manifest)
        if not landing.complete:
            await asyncio.to_thread(self._holdings.check_space, landing)
        self._tell()
        ticker = asyncio.create_task(self._tick())
        try:
            if not (homes := landing.homes(self._holdings.data)):
                await self._receive_and_verify(landing, sources, pauses)
                await asyncio.to_thread(landing.settle, home, self._holdings.data)
            elif home not in homes:
                await asyncio.to_thread(landing.add_home, home, self._holdings.data)
        finally:
            ticker.cancel()
        self._tell(state=TransferState.COMPLETE)

    async def failed(self, error: TrainmasterError) -> None:
        self._tell(state=TransferState.FAILED, error_code=error.code, error=error.sentence)
        # What is complete under another name is still served.
        if self._landing is not None and not self._landing.homes(self._holdings.data):
            await self._holdings.give_up(self._landing)

    # -- receiving

    async def _receive_and_verify(
        self, landing: Landing, sources: Sequence[Source], pauses: Sequence[float]
    ) -> None:
        with suppress(SourceFailed):
            await self._pull(LocalSource(self._holdings), landing)
        for last_chance in (False, True):
            digests = asyncio.create_task(_wrong_files(landing))
            try:
                await self._receive(landing, sources, pauses)
                self._tell(state=TransferState.VERIFYING)
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
            self._tell(state=TransferState.RECEIVING, retries=self._progress.retries + 1)

    async def _receive(self, landing: Landing, sources: Sequence[Source], pauses: Sequence[float]) -> None:
        waits = iter(pauses)
        troubles: list[str] = []
        while landing.bytes_missing:
            before = landing.bytes_done
            troubles = []
            for source in sources:
                if source.name in self._progress.distrusted and source.name != STORE:
                    continue
                try:
                    await self._pull(source, landing)
                except SourceFailed as trouble:
                    log.warning("%s: %s", self._wanted.deployment_id, trouble)
                    troubles.append(str(trouble))
                    self._tell(retries=self._progress.retries + 1)
                if not landing.bytes_missing:
                    return
            if landing.bytes_done > before:
                waits = iter(pauses)
            if (pause := next(waits, None)) is None:
                break
            await asyncio.sleep(pause)
        if landing.bytes_missing:
            raise self._no_source(troubles)

    async def _pull(self, source: Source, landing: Landing) -> None:
        """All that is missing from this source. While a piece is hashed and written the next one is fetched."""
        self._progress = replace(self._progress, source_peer=source.name)
        keeping: asyncio.Task[None] | None = None
        try:
            async with aclosing(source.pieces(landing)) as pieces:
                async for piece, data in pieces:
                    if keeping is not None:
                        await keeping
                    keeping = asyncio.create_task(self._keep(source, landing, piece, data))
            if keeping is not None:
                await keeping
        finally:
            if keeping is not None and not keeping.done():
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self, source: Source, landing: Landing, piece: Piece, data: bytes) -> None:
        if await landing.keep(piece, data):
            return
        self._progress = replace(self._progress, distrusted=(*self._progress.distrusted, source.name))
        path = landing.manifest.files[landing.manifest.chunks[piece.chunk].file].path
        where = f"{path}, chunk {piece.chunk}, piece {piece.index}"
        raise SourceFailed(f"{source.name} sent damaged bytes ({where}); they were thrown away")

    def _no_source(self, troubles: list[str]) -> TrainmasterError:
        if STORE in self._progress.distrusted:
            return TrainmasterError("verification_failed", "; ".join(troubles))
        sentence = f"No source can go on: {'; '.join(troubles)}"
        return TrainmasterError("source_unavailable", sentence, source=shown(self._wanted.source_url))

    # -- telling

    def _tell(self, **changes: object) -> None:
        landing = self._landing
        if landing is not None:
            changes |= {
                "chunks_done": landing.chunks_done(),
                "bytes_done": landing.bytes_done,
                "rate_in": landing.received.rate(),
                "rate_out": landing.sent.rate(),
            }
        self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
        self._report(self._progress)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_SECONDS)
            self._tell()


async def _wrong_files(landing: Landing) -> list[str]:
    """Follows the pieces as they arrive, reads them back and gives the files without the right SHA-256."""
    manifest = landing.manifest
    digests = [hashlib.sha256() for _ in manifest.files]

    def add(piece: Piece, file: int) -> None:
        digests[file].update(landing.read(piece))

    for chunk in manifest.chunks:
        for piece in manifest.pieces(chunk):
            while not await landing.arrived(chunk.index, piece.index, 60.0):
                if landing.closed:
                    raise asyncio.CancelledError
            await asyncio.to_thread(add, piece, chunk.file)
    pairs = zip(manifest.files, digests, strict=True)
    return [entry.path for entry, digest in pairs if digest.hexdigest() != entry.sha256]
