"""The loader: batches of this rank's share, read ahead in order, and a state of a few integers."""

from __future__ import annotations

import multiprocessing
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from platform_core.loading.order import LastBatch, Order, Span
from platform_core.loading.shards import ShardOrder
from trainmaster import feeds
from trainmaster.checkpoints import collective
from trainmaster.console import Console
from trainmaster.data.quarantine import NeedsReview, Quarantine, Register, SetAside
from trainmaster.data.ranks import data_rank
from trainmaster.data.reading import Batch, Reader, begin_process, default_collate, read_in_process
from trainmaster.data.review import Review
from trainmaster.data.sources import Source
from trainmaster.data.stream import ENDING, Ahead, stream
from trainmaster.environment import job_environment

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_BATCHES_A_WORKER = 2  # read ahead, as torch's prefetch_factor
_PLANNED_SAMPLES = 4096  # of a rank: a permutation costs 25 times as much a sample where it is asked for 64


class DataLoader:
    """Iterating gives this rank's share of each global batch until the epoch ends; the next loop is the next epoch.

    The order follows from seed, epoch and place alone. The state is the position of the next batch that the loop has
    not been given, whatever was read ahead, so another number of ranks or workers goes on with the same samples.
    `save_checkpoint` and `load_checkpoint` carry it under `name` without a call of the script. Not safe in threads.
    """

    def __init__(
        self,
        source: Source,
        global_batch: int,
        *,
        seed: int | None = None,
        shuffle: bool = True,
        decode: Callable[[Any], Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
        processes: bool = False,
        prefetch: int | None = None,
        last: Literal["fill", "keep"] = "fill",
        name: str = "train",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: DeviceMesh | None = None,
        quarantine: Quarantine | None = None,
        shards_at_once: int | None = None,
    ) -> None:
        """`global_batch` is of all ranks together. Ranks that hold parts of one copy of the model (tp, pp, cp) get
        the same samples: by the layout of the job, or by `mesh`, the whole DeviceMesh of a script that makes its own.
        `rank` and `world_size`, of those that get different samples, win over both.

        `decode` is called with each sample, `collate` with a list of them.

        `workers` threads, or processes, read `prefetch` batches ahead (2 a worker); 0 reads when the loop asks.
        `last`: an epoch's last batch is filled from the next epoch, or kept smaller, as for an evaluation.
        `shards_at_once`: how many shards are shuffled together, one such group after the other; by default all are, and
        those of a dataset that is streamed in groups of 8. 0: all.
        """
        environment = job_environment()
        place = data_rank(rank, world_size, mesh)
        self.rank, self.world_size = place.rank, place.size
        limits = quarantine or Quarantine()
        review = Review(environment, source, name, place.process)
        self._register = Register(limits, Console().warn, review.tell)
        self._note(
            tuple(item for item in getattr(source, "unreadable", ()) if not review.is_known(item.shard))
        )
        _check(len(source), global_batch, self.rank, self.world_size, workers)
        if rank is None and collective.active():
            _agree(len(source))
        chosen = seed if seed is not None else environment.seed
        its = stream()
        if shards_at_once is None and its is not None:
            shards_at_once = getattr(source, "shards_at_once", 0)
        self.order = _order(source, chosen or 0, shuffle, shards_at_once or 0)
        self._ahead_of = Ahead(its, source, f"rank-{place.process}-{name}") if its is not None else None
        self.global_batch, self._last = global_batch, LastBatch(last)
        self._reader = Reader(source, decode, collate or default_collate(), limits, review.filter())
        self._workers, self._processes = workers, processes
        self._depth = max(1, prefetch or workers * _BATCHES_A_WORKER)
        self._executor: Executor | None = None
        self._ahead: deque[tuple[Span, Future[Batch]]] = deque()
        self._planned: deque[tuple[Span, list[int]]] = deque()
        self._position = 0
        self._loads = 0
        feeds.register(name, self)

    @property
    def position(self) -> int:
        """Samples that all ranks together were given since the beginning of the training."""
        return self._position

    @property
    def epoch(self) -> int:
        return self.order.epoch(self._position)

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """What this rank could not read, at most the first 1,000."""
        return tuple(self._register.listed)

    def __len__(self) -> int:
        """Batches until the end of this epoch."""
        return self.order.batches_left(self._position, self.global_batch)

    def __iter__(self) -> Iterator[Any]:
        epoch, loads = self.epoch, self._loads
        while self.epoch == epoch:
            began = time.perf_counter()
            batch = self._next()
            feeds.waited(time.perf_counter() - began, batch.samples)
            if batch.samples:
                yield batch.content
            if loads != self._loads:
                raise RuntimeError(
                    "A state was loaded into the loader within its loop; load it before the loop."
                )

    def state_dict(self) -> dict[str, Any]:
        order = self.order
        state = {
            "position": self._position,
            "samples": order.samples,
            "seed": order.seed,
            "shuffle": order.shuffle,
        }
        return {**state, "shards_at_once": order.at_once} if isinstance(order, ShardOrder) else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on at that position, in the order that it belongs to. ValueError if the source has other samples."""
        if state["samples"] != self.order.samples:
            raise ValueError(
                f"The position is one among {state['samples']:,} samples, and the source has {self.order.samples:,}; "
                "give the loader the data that the training began with, or begin without resuming."
            )
        at_once = int(state.get("shards_at_once", 0))
        self.order = _order(self._reader.source, int(state["seed"]), bool(state["shuffle"]), at_once)
        self._position = int(state["position"])
        self._planned.clear()
        self._loads += 1
        for _, future in self._ahead:
            future.cancel()
        self._ahead.clear()

    def _next(self) -> Batch:
        if self._workers:
            self._read_ahead()
            span, future = self._ahead.popleft()
            batch = future.result()
            self._position = span.stop
            self._read_ahead()
        else:
            span, indices = self._plan(self._position)
            self._ask(span.stop)
            batch = self._reader.read(indices)
            self._position = span.stop
        if batch.set_aside:
            self._note(batch.set_aside)
            if not batch.samples:
                raise NeedsReview(
                    f"None of the {len(batch.set_aside)} samples of rank {self.rank} in this batch could be read; "
                    f"the last: {batch.set_aside[-1].reason}."
                )
        return batch

    def _read_ahead(self) -> None:
        """As many batches as fit; they may reach into the next epoch."""
        executor = self._executor or self._start()
        read: Any = read_in_process if self._processes else self._reader.read
        position = self._ahead[-1][0].stop if self._ahead else self._position
        while len(self._ahead) < self._depth:
            span, indices = self._plan(position)
            self._ask(span.stop)
            self._ahead.append((span, executor.submit(read, indices)))
            position = span.stop

    def _ask(self, planned: int) -> None:
        if self._ahead_of is not None and isinstance(self.order, ShardOrder):
            self._ahead_of.tell(self.order, self._position, planned - 1)

    def _plan(self, position: int) -> tuple[Span, list[int]]:
        """The batch at this position, and this rank's samples of it. The order is asked for many batches at once."""
        if not self._planned or self._planned[0][0].start != position:
            self._planned.clear()
            spans = [self.order.batch(position, self.global_batch, self._last)]
            stop = min(
                position + _PLANNED_SAMPLES * self.world_size,
                (self.order.epoch(position) + 1) * self.order.samples,
            )
            while spans[-1].stop < stop:
                spans.append(self.order.batch(spans[-1].stop, self.global_batch, self._last))
            shares = [span.share(self.rank, self.world_size) for span in spans]
            indices: list[int] = self.order.indices(*shares).tolist()
            begin = 0
            for span, share in zip(spans, shares, strict=True):
                count = share.stop - share.start
                self._planned.append((span, indices[begin : begin + count]))
                begin += count
        return self._planned.popleft()

    def _start(self) -> Executor:
        executor: Executor
        if self._processes:
            context = multiprocessing.get_context()
            executor = ProcessPoolExecutor(
                self._workers,
                context,
                initializer=begin_process,
                initargs=(self._reader, ENDING.shared(context)),
            )
        else:
            executor = ThreadPoolExecutor(self._workers, thread_name_prefix="trainmaster-data")
        self._executor = executor
        weakref.finalize(self, executor.shutdown, wait=False, cancel_futures=True)
        return executor

    def _note(self, found: tuple[SetAside, ...]) -> None:
        if found:
            feeds.set_aside(len(found))
            self._register.add(found)


def _order(source: Any, seed: int, shuffle: bool, at_once: int) -> Order:
    if not at_once:
        return Order(len(source), seed, shuffle)
    ends = getattr(source, "ends", None)
    if ends is None:
        raise ValueError(
            f"shards_at_once is {at_once}, and a {type(source).__name__} has no shards; leave it out."
        )
    return ShardOrder(len(source), seed, shuffle, ends, at_once)


def _check(samples: int, global_batch: int, rank: int, world_size: int, workers: int) -> None:
    if not samples:
        raise ValueError("The source has no samples.")
    if workers < 0:
        raise ValueError(f"There cannot be {workers} workers.")
    if not 0 <= rank < world_size:
        raise ValueError(f"Rank {rank} is none of {world_size} data ranks.")
    if global_batch < world_size:
        raise ValueError(
            f"A global batch of {global_batch} gives no sample to some of {world_size} data ranks."
        )


def _agree(samples: int) -> None:
    """All ranks must see the same samples: of others each would make another order."""
    most, negative_least = collective.maximum([samples, -samples])
    if most != -negative_least:
        raise ValueError(
            f"The ranks see other data: one has {-negative_least:,} samples and another one {most:,}; "
            "a shard may be unreadable on one node."
        )
