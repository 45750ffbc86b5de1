"""Carries out the requests that the swarm decides for one node, lane by lane, from neighbours or the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from agent.transfer.disk.landing import Landing
from agent.transfer.disk.lane_book import LaneBook
from agent.transfer.orders.write_behind import WriteBehind
from agent.transfer.peers.link import Link
from agent.transfer.peers.neighbour import Neighbour, Patience, Security
from agent.transfer.store.ranges import SILENCE_SECONDS
from agent.transfer.store.sources import Source, SourceChanged, SourceFailed, StoreSource
from platform_core.distribution.planning.forest import STORE, NodePlan, lane_length
from platform_core.distribution.swarm.endgame import Ending, look
from platform_core.distribution.swarm.requests import LEAP_SECONDS, PATIENCE_LEAPS, Follow, View, next_actions
from platform_core.distribution.swarm.runs import count, joined
from platform_core.errors import TrainmasterError
from platform_core.node.wanted import Peer

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.5
STALLED_SECONDS = 2.0
OTHERS_AFTER_SECONDS, NEXT_AFTER_SECONDS = 10.0, 2.0
LEAST_LEAP = 8  # pieces


@dataclass(frozen=True, slots=True)
class Route:
    """From whom this node receives; the sources of the plan are node ids and the store."""

    plan: NodePlan
    peers: tuple[Peer, ...]

    @property
    def lanes(self) -> int:
        return len(self.plan.lanes)


@dataclass(frozen=True, slots=True)
class Trying:
    """`pauses`: before the store is asked again. When it fails once more after the last, and nobody else has what is
    missing, the delivery has failed. `store_silence`: how long a range of it may stay without a byte.
    `changed_patience`: how long after the last piece of others a node fails whose store has another file by now."""

    pauses: tuple[float, ...] = (1.0, 2.0, 4.0)
    patience: Patience = field(default_factory=Patience)
    store_silence: float = SILENCE_SECONDS
    changed_patience: float = 10.0
    store_patience: float = 60.0  # the same where the store cannot be read, which may pass


@dataclass(frozen=True, slots=True)
class Means:
    """The tools of a pull."""

    store: StoreSource
    token: str
    trying: Trying
    security: Security
    link: Link


class DamagedPiece(SourceFailed):
    """The bytes are not what the manifest says; this source is not asked again."""

    def __init__(self, sentence: str, size: int) -> None:
        super().__init__(sentence)
        self.size = size


class Pull:
    """`run` ends when nothing is missing, or raises SourceFailed when nobody can go on, TrainmasterError when this node
    itself cannot.

    `trouble` is called for each source that failed, `came` for each verified piece with its source and size.
    """

    def __init__(
        self, landing: Landing, route: Route, means: Means,
        trouble: Callable[[str, SourceFailed], None], came: Callable[[str, int], None],
    ) -> None:  # fmt: skip
        self._landing, self._route, self._means = landing, route, means
        self._trouble, self._came = trouble, came
        self._book = landing.book(route.lanes)
        self._taken = LaneBook(route.lanes)  # verified by this pull; the last of them may not be on disk yet
        self._following: list[Follow | None] = [None] * route.lanes
        self._tasks: list[asyncio.Task[None] | None] = [None] * route.lanes
        self._progressed = [0.0] * route.lanes  # when the last piece of a lane came; 0 before the first
        self._neighbours: dict[str, tuple[Neighbour, asyncio.Task[None]]] = {}
        self._distrusted: set[str] = set()
        self._stalled: set[int] = set()
        self._store_tries = 0
        self._store_free_at = 0.0
        self._store_sent_wrong: set[int] = set()
        self._store_changed: SourceChanged | None = None  # then only what others have already can come
        self._came_at = 0.0
        self._ending = Ending(0)
        self._link_in_doubt = False  # somebody else was to be asked, and now it is the store
        self._broken: TrainmasterError | None = None
        self._last_trouble: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    def reroute(self, route: Route) -> bool:
        """Other sources from now on; what is under way from those that stay goes on. False: make a new pull."""
        if route.lanes != self._route.lanes:
            return False
        now = asyncio.get_running_loop().time()
        for lane, (before, after) in enumerate(zip(self._route.plan.lanes, route.plan.lanes, strict=True)):
            if before[0] != after[0] and self._progressed[lane]:
                self._progressed[lane] = now  # who takes over has its own way to go first
        self._route = route
        self._meet()
        self._news.set()
        return True

    async def run(self) -> None:
        self._meet()
        # After a restart the lanes that hold something are under way, and may find all they knew gone.
        now = self._came_at = asyncio.get_running_loop().time()
        self._progressed = [now if runs else 0.0 for runs in self._book.runs()]
        self._ending = Ending(int(now * 1000), tuple(map(count, self._book.runs())))
        try:
            while self._landing.bytes_missing:
                self._news.clear()
                self._give_up_if_nobody_is_left()
                for follow in next_actions(self._plan(), self._view()):
                    self._follow(follow)
                await self._news_or_time()
        finally:
            tasks = [task for task in self._tasks if task is not None]
            tasks += [task for _, task in self._neighbours.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._closing, return_exceptions=True)
            for neighbour, _ in self._neighbours.values():
                await neighbour.close()

    # -- what it knows

    def _meet(self) -> None:
        """Watches the nodes that the plan names, and no others."""
        named = {source for lane in self._route.plan.lanes for source in lane}
        wanted = {peer.node_id: peer for peer in self._route.peers if peer.node_id in named}
        for name, (neighbour, task) in list(self._neighbours.items()):
            if wanted.get(name) != neighbour.peer:
                del self._neighbours[name]
                task.cancel()
                self._closing.add(asyncio.create_task(neighbour.close()))
        for name, peer in wanted.items():
            if name not in self._neighbours:
                means = self._means
                neighbour = Neighbour(
                    peer, self._landing, self._route.lanes, means.token, means.trying.patience,
                    means.security, self._news.set, self._missed,
                )  # fmt: skip
                self._neighbours[name] = (
                    neighbour,
                    asyncio.create_task(neighbour.watch(*self._when(name))),
                )

    def _when(self, name: str) -> tuple[float, float | None]:
        """Its news, its connection. The first seconds belong to the bytes: a hundred handshakes at once would hold them
        up. Those who are only there for the case that a parent fails are met one after the other, or when one does."""
        places = {lane.index(name) for lane in self._route.plan.lanes if name in lane}
        if 0 in places:
            return 0.0, None
        turn = 1 + len(self._neighbours) / 2
        return OTHERS_AFTER_SECONDS * turn, NEXT_AFTER_SECONDS * turn if 1 in places else None

    def _retry_all(self) -> None:
        for neighbour, _ in self._neighbours.values():
            neighbour.meet()

    def _plan(self) -> NodePlan:
        """Without the store when what lies there is another file now."""
        plan = self._route.plan
        if self._store_changed is None:
            return plan
        others = tuple(self._neighbours)
        lanes = (tuple(name for name in lane if name != STORE) or others for lane in plan.lanes)
        return replace(plan, lanes=tuple(lanes))

    def _view(self) -> View:
        lanes, landing = self._route.lanes, self._landing
        now = asyncio.get_running_loop().time()
        stalled = {lane for lane, at in enumerate(self._progressed) if at and now - at > STALLED_SECONDS}
        if stalled > self._stalled:
            self._retry_all()
        self._stalled = stalled
        a_second = landing.received.rate() / landing.manifest.piece_size / lanes
        leap = max(LEAST_LEAP, int(LEAP_SECONDS * a_second))
        named = {source for lane in self._route.plan.lanes for source in lane if source != STORE}
        absent = {name for name in named if name not in self._neighbours}
        absent |= {name for name, (neighbour, _) in self._neighbours.items() if neighbour.gone}
        taken = self._taken.runs()  # others may have these by now, who would seem far ahead
        view = View(
            pieces=landing.count,
            holds=tuple(joined((*here, *new)) for here, new in zip(self._book.runs(), taken, strict=True)),
            neighbours={
                name: neighbour.holds
                for name, (neighbour, _) in self._neighbours.items()
                if neighbour.has_reported
            },
            following=tuple(self._known(follow) for follow in self._following),
            leap=leap,
            patience=leap * PATIENCE_LEAPS,
            gone=frozenset(absent | self._distrusted),
            stalled=frozenset(stalled),
        )
        before, self._ending = self._ending, look(self._ending, view, int(now * 1000))
        if self._ending.avoided.keys() - before.avoided.keys():
            self._retry_all()
        return replace(view, slow=self._ending.slow(int(now * 1000)))

    def _known(self, follow: Follow | None) -> Follow | None:
        """None if a new plan no longer names the source that this lane follows."""
        known = follow is not None and (follow.source == STORE or follow.source in self._neighbours)
        return follow if known else None

    def held(self) -> tuple[int, ...]:
        """By lane the bytes that are here, as if all pieces were of one size."""
        return tuple(count(runs) * self._landing.manifest.piece_size for runs in self._book.runs())

    async def _news_or_time(self) -> None:
        try:
            async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass

    def _give_up_if_nobody_is_left(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._store_changed is not None:
            quiet = asyncio.get_running_loop().time() - self._came_at
            if quiet > self._means.trying.changed_patience or not self._neighbours:
                raise self._store_changed
        busy = any(follow is not None for follow in self._following)
        quiet = asyncio.get_running_loop().time() - self._came_at
        # Nodes that wait for each other are busy for ever.
        nobody = not busy or quiet > self._means.trying.store_patience
        if self._store_tries > len(self._means.trying.pauses) and nobody:
            raise SourceFailed("; ".join(dict.fromkeys(self._last_trouble.values())))

    # -- what it does

    def _follow(self, follow: Follow) -> None:
        lane = follow.lane
        source = self._source(follow.source)
        if source is None:
            return
        if (earlier := self._tasks[lane]) is not None:
            earlier.cancel()
        self._following[lane] = follow
        self._link_in_doubt |= follow.source == STORE != self._route.plan.lanes[lane][0]
        first, until = follow.first, follow.until
        lanes = self._route.lanes
        until = min(until, lane_length(self._landing.count, lane, lanes))
        numbers = range(lane + first * lanes, lane + (until - 1) * lanes + 1, lanes)
        self._tasks[lane] = asyncio.create_task(self._pull(source, follow, numbers, earlier))

    def _source(self, name: str) -> Source | None:
        """None while the store must not be asked."""
        if name != STORE:
            return self._neighbours[name][0]
        if self._store_changed is not None:
            return None
        return None if asyncio.get_running_loop().time() < self._store_free_at else self._means.store

    async def _pull(
        self, source: Source, follow: Follow, numbers: range, earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            await asyncio.gather(earlier, return_exceptions=True)
        try:
            await self._receive(source, follow.lane, numbers)
        except SourceFailed as trouble:
            self._failed(source, trouble)
        except TrainmasterError as error:
            self._disk_failed(error)
        except Exception as error:
            log.exception("what %s sent could not be taken", source.name)
            self._failed(source, SourceFailed(f"{source.name} cannot be followed: {error!r}"))
        finally:
            if self._tasks[follow.lane] is asyncio.current_task():
                self._following[follow.lane] = None
                self._tasks[follow.lane] = None
                self._news.set()

    def _failed(self, source: Source, trouble: SourceFailed) -> None:
        self._last_trouble[source.name] = str(trouble)
        if isinstance(trouble, DamagedPiece) and source.name != STORE:
            self._distrusted.add(source.name)
        if isinstance(source, Neighbour):
            source.miss(trouble)
            return
        if isinstance(trouble, SourceChanged) and self._store_changed is None:
            self._store_changed = trouble
            self._came_at = asyncio.get_running_loop().time()
        pauses = self._means.trying.pauses
        now = asyncio.get_running_loop().time()
        if now >= self._store_free_at:  # lanes that fail together are one failure
            self._store_free_at = now + (pauses[min(self._store_tries, len(pauses) - 1)] if pauses else 0.0)
            self._store_tries += 1
        self._trouble(source.name, trouble)

    def _disk_failed(self, error: TrainmasterError) -> None:
        """Ends the pull: the disk of this node failed, and no other source helps."""
        self._broken = error
        self._news.set()

    def _missed(self, neighbour: Neighbour, trouble: SourceFailed) -> None:
        """Who takes over its lanes has its own way to go first: one that still asked the store would ask twice."""
        now = asyncio.get_running_loop().time()
        for lane, follow in enumerate(self._following):
            if follow is not None and follow.source == neighbour.name and self._progressed[lane]:
                self._progressed[lane] = now
        self._last_trouble[neighbour.name] = str(trouble)
        self._retry_all()
        self._trouble(neighbour.name, trouble)
        self._news.set()

    async def _receive(self, source: Source, lane: int, numbers: range) -> None:
        """A piece is passed on as soon as it is verified; the disk may be a few behind."""

        def written(size: int) -> None:
            self._progressed[lane] = self._came_at = asyncio.get_running_loop().time()
            if source.name == STORE:
                self._store_tries = 0
                self._link_works()
            self._came(source.name, size)

        async with (
            WriteBehind(self._landing, written, self._disk_failed) as disk,
            aclosing(source.pieces(self._landing, numbers)) as pieces,
        ):
            async for number, parts in pieces:
                size = sum(len(part) for part in parts)
                await self._means.link.take(self._landing.manifest.id, size)
                if not await self._landing.verify(number, parts):
                    raise self._damaged(source, number, size)
                await disk.write(number, parts)
                self._taken.add(number)

    def _damaged(self, source: Source, number: int, size: int) -> SourceFailed:
        """What the store sends wrong twice is wrong there: no neighbour that waits for it need wait on."""
        if source is self._means.store:
            if number in self._store_sent_wrong:
                return self._means.store.other_bytes(self._landing, number)
            self._store_sent_wrong.add(number)
        piece = self._landing.piece_at(number)
        path = self._landing.manifest.files[self._landing.manifest.chunks[piece.chunk].file].path
        where = f"{path}, chunk {piece.chunk}, piece {piece.index}"
        return DamagedPiece(f"{source.name} sent damaged bytes ({where}); they were thrown away", size)

    def _link_works(self) -> None:
        """Retries all neighbours at once that were missed while this node's own link was down."""
        if self._link_in_doubt:
            self._link_in_doubt = False
            for neighbour, _ in self._neighbours.values():
                if neighbour.gone:
                    neighbour.meet()
