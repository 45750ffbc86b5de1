"""Saving: each rank copies its part of the state to host memory and returns; a thread writes it.

The ranks vote once a save, in one small collective. They plan who writes what at the first save and when the state has
other tensors; replicated tensors are written once, spread over the ranks.
"""

from __future__ import annotations

import io
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainmaster.checkpoints import blocks, collective, folder, layout, random_state
from trainmaster.checkpoints import tree as trees
from trainmaster.checkpoints.description import Description
from trainmaster.checkpoints.staging import Staging
from trainmaster.checkpoints.writing import Node, Order, Writer

WhenBusy = Literal["wait", "skip"]


class CheckpointNotSaved(Exception):
    """A rank could not write its part. Raised on every rank, so that none waits for the others."""


@dataclass(frozen=True, slots=True)
class Request:
    step: int
    metrics: Mapping[str, float]
    when_busy: WhenBusy = "wait"
    blocking: bool = False
    emergency: bool = False  # the script was told to stop
    seconds_left: float | None = None  # until it is stopped


@dataclass(slots=True)
class _Plan:
    """Holds while the state has the same blocks."""

    signature: object
    staging: Any
    index: bytes  # on rank 0
    structure: bool  # whether this rank writes the structure of its state


class Saver:
    """The saves of one process. Its functions are collectives; only one save is in flight."""

    def __init__(
        self,
        parent: Path | None,
        keep_last: int,
        now_ms: Callable[[], int],
        finished: Callable[[Path, Description], None],
        warn: Callable[[str], None],
        verified: bool = True,
        failed: Callable[[int, str], None] = lambda step, why: None,
    ) -> None:
        """`parent` is None on ranks that write where rank 0 does. `finished`, `warn` and `failed` are called by
        the writing thread: on the first rank of each node, and on rank 0. `failed` is told once of each failure."""
        self.parent = parent
        self._keep_last, self._now_ms, self._finished = keep_last, now_ms, finished
        self._warn, self._verified, self._tell_failed = warn, verified, failed
        self._plan: _Plan | None = None
        self._node: Node | None = None
        self._folder: Path | None = None
        self._writer: Writer | None = None
        self._write_seconds = 0.0

    @property
    def busy(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    def save(self, state: Mapping[str, Any], request: Request) -> Path | None:
        """The folder that the checkpoint will have, on rank 0; None elsewhere and when it was skipped."""
        began = time.perf_counter()
        trouble, tree, signature = "", None, None
        try:
            tree = trees.take_apart(state)
            signature = (
                collective.world_size(),
                blocks.signature(tree.tensors),
                trees.shape_of(tree.structure),
            )
        except Exception as error:
            trouble = str(error) or type(error).__name__
        changed = self._plan is None or self._plan.signature != signature
        refused, busy, changed_, began_at_ms = collective.maximum(
            [bool(trouble), self.busy, changed, self._now_ms()]
        )
        if refused:
            raise self._refused(request.step, collective.first_sentence(trouble))
        if busy and request.when_busy == "skip" and not request.blocking and not request.emergency:
            return None
        self.wait()
        if request.emergency and collective.any_true(self._too_late(request, began)):
            return None
        assert tree is not None
        if changed_:
            self._plan = self._make_plan(request.step, tree, signature)
        assert self._plan is not None
        assert self._node is not None
        assert self._folder is not None
        self._writer = self._start(tree, self._plan, request, began, began_at_ms)
        if request.blocking:
            self.wait()
        if collective.rank() != 0:
            return None
        return (self.parent or self._folder) / folder.name_of(request.step)

    def _too_late(self, request: Request, began: float) -> bool:
        """Whether a stop leaves less time than the last save of this run took, which is whole by now."""
        if request.seconds_left is None or not self._write_seconds:
            return False
        left = request.seconds_left - (time.perf_counter() - began)
        if left < self._write_seconds:
            self._warn(
                f"step {request.step} is not saved: {left:.0f} s are left until the stop, and the last save took "
                f"{self._write_seconds:.0f} s. The run resumes from that one."
            )
        return left < self._write_seconds

    def wait(self) -> None:
        """For the save in flight. CheckpointNotSaved when it failed, once, on every rank."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.join()
        if writer.sentence:
            raise _not_saved(writer.step, writer.sentence)
        self._write_seconds = writer.write_seconds

    def _start(self, tree: Any, plan: _Plan, request: Request, began: float, began_at_ms: int) -> Writer:
        rank = collective.rank()
        events: list[Any] = []
        values: dict[str, Any] = {"random": random_state.capture()}
        if plan.structure:
            values["structure"] = tree.structure
        trouble: Exception | None = None
        try:
            packed = _pack(values)
            events = plan.staging.fill(tree.tensors)
        except Exception as error:  # the other ranks learn it from the writer
            trouble = error

        def contents() -> Any:
            if trouble is not None:
                raise trouble
            for event in events:
                event.synchronize()
            for file, data in plan.staging.contents():
                yield file.path, data
            yield layout.values_file(rank), packed
            if rank == 0:
                yield layout.INDEX, memoryview(plan.index)

        assert self._node is not None
        assert self._folder is not None
        description = Description(
            request.step, request.metrics, collective.world_size(), began_at_ms,
            began_at_ms=began_at_ms, emergency=request.emergency,
            blocking_ms=round((time.perf_counter() - began) * 1000),
        )  # fmt: skip
        courteous = not (request.blocking or request.emergency)
        order = Order(
            description, self._folder, contents, began, courteous, self._named, self._failed, self._verified
        )
        writer = Writer(order, self._node, collective.channel("writing"))
        writer.start()
        return writer

    def _named(self, path: Path, description: Description) -> None:
        folder.prune(path.parent, self._keep_last, (description.began_at_ms, description.step))
        self._finished(path, description)

    def _failed(self, step: int, sentence: str) -> None:
        """At once, as the script may not ask again."""
        if collective.rank() == 0:
            self._warn(str(_not_saved(step, sentence)))
            self._tell_failed(step, sentence)

    def _refused(self, step: int, why: str) -> CheckpointNotSaved:
        """What every rank raises when a save cannot begin."""
        if collective.rank() == 0:
            self._tell_failed(step, why)
        return _not_saved(step, why)

    def _make_plan(self, step: int, tree: Any, signature: object) -> _Plan:
        """A collective: who writes which block into which file, and the memory for it."""
        if self._node is None:
            self._node = self._find_node(step)
        self._plan = None  # its memory goes before the next is taken
        own = blocks.blocks_of(tree.tensors)
        sources = {piece: block for block in own for piece in layout.split(block)}
        offers = collective.to_first((list(sources), trees.shape_of(tree.structure)))
        trouble, index = "", b""
        tasks: list[tuple[tuple[layout.FileLayout, ...], bool]] = []
        if collective.rank() == 0:
            try:
                shares = layout.share([offered for offered, _ in offers])
                layouts = [layout.arrange(share, rank) for rank, share in enumerate(shares)]
                shapes = [shape for _, shape in offers]
                structures = [rank for rank, shape in enumerate(shapes) if shape not in shapes[:rank]]
                index = layout.write_index(layouts, structures)
                tasks = [(file, rank in structures) for rank, file in enumerate(layouts)]
            except Exception as error:
                trouble = str(error)
        trouble = collective.from_first(trouble)
        if trouble:
            raise self._refused(step, trouble)
        files, structure = collective.scatter(tasks)
        staging, on_gpu = None, any(tensor.is_cuda for tensor in tree.tensors.values())
        try:
            staging = Staging(files, sources, on_gpu)
        except Exception as error:
            trouble = str(error)
        if trouble := collective.first_sentence(trouble):
            raise self._refused(step, trouble)
        return _Plan(signature, staging, index, structure)

    def _find_node(self, step: int) -> Node:
        """Ranks that see a folder made by rank 0 share its place; of the others those with one host and one path."""
        first, trouble, probe = collective.rank() == 0, "", ""
        place = Path(os.path.abspath(self.parent)) if self.parent is not None else None
        if first:
            try:
                if place is None:
                    raise RuntimeError("this process has no folder for checkpoints")
                probe = f"{folder.TEMPORARY}probe-{uuid.uuid4().hex}"
                (place / probe).mkdir(parents=True)
            except Exception as error:
                trouble = str(error)
        trouble, probe, of_first = collective.from_first((trouble, probe, place))
        if trouble:
            raise self._refused(step, trouble)
        self._folder = place or of_first
        assert self._folder is not None
        shared = (self._folder / probe).is_dir()
        places = collective.to_all("" if shared else f"{socket.gethostname()}:{self._folder}")
        if first:
            (self._folder / probe).rmdir()
        nodes = list(dict.fromkeys(places))
        mine = places[collective.rank()]
        members = tuple(rank for rank, name in enumerate(places) if name == mine)
        return Node(nodes.index(mine), len(nodes), members)


def _pack(values: Mapping[str, Any]) -> memoryview:
    import torch

    written = io.BytesIO()
    torch.save(dict(values), written)
    return written.getbuffer()


def _not_saved(step: int, why: str) -> CheckpointNotSaved:
    return CheckpointNotSaved(f"The checkpoint of step {step} was not saved: {why}")
