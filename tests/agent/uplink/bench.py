"""An attempt's uplink over real files, with a server that is none and a clock that a test sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from agent import artifacts
from agent.uplink.attempt import AttemptUplink, UplinkPlan
from agent.uplink.batch import LAUNCHER_RANK_BASE, Ack, Batch
from agent.uplink.cursors import Source
from agent.uplink.mask import Mask
from agent.uplink.uploads import Uploader
from agent.work_folder import WorkFolder


class Server:
    """The other end: keeps batches by offset, as the database does."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Source, int], dict[int, Batch]] = {}
        self.answers: Callable[[Batch], Ack | None] = lambda _: None  # instead of keeping it

    def take(self, batch: Batch) -> Ack:
        if (answer := self.answers(batch)) is not None:
            return answer
        self.kept.setdefault((batch.source, batch.rank), {}).setdefault(batch.offset, batch)
        return Ack(batch.attempt_id, batch.rank, batch.source, batch.next_offset)

    def text(self, source: Source, rank: int) -> str:
        batches = [batch for _, batch in sorted(self.kept.get((source, rank), {}).items())]
        for earlier, later in pairwise(batches):
            assert earlier.next_offset <= later.offset
            assert earlier.next_offset == later.offset or source is Source.SPOOL, (
                "only lines for nobody are left out"
            )
        return b"".join(batch.data for batch in batches).decode()

    def checkpoints(self) -> list[Batch]:
        return [
            batch
            for (source, _), kept in self.kept.items()
            if source is Source.CHECKPOINT
            for batch in kept.values()
        ]


class Bench:
    """A folder, an uplink on it that may be replaced as by a new agent, a server, and a clock."""

    def __init__(self, folder: WorkFolder, store: Path, executor: ThreadPoolExecutor) -> None:
        self.folder, self.store, self._executor = folder, store, executor
        self.server, self.now = Server(), 0.0
        self.uploader: Uploader = artifacts.upload
        self.log_cap_bytes = 64 << 20
        self.uplink = self.new_agent()

    def new_agent(self, mask: Mask | None = Mask(())) -> AttemptUplink:
        plan = UplinkPlan(
            folder=self.folder,
            node_rank=0,
            upload_url=self.store.as_uri(),
            keep_last=2,
            log_cap_bytes=self.log_cap_bytes,
            upload_limit_seconds=60,
        )
        self.uplink = AttemptUplink(plan, mask, lambda *a: self.uploader(*a), self._executor)
        return self.uplink

    def step(self, seconds: float = 3.0) -> list[Batch]:
        self.now += seconds
        return self.uplink.step(self.now)

    def exchange(self) -> int:
        """One round with the server; how many batches went up."""
        batches = self.step()
        for batch in batches:
            self.uplink.acknowledge(self.server.take(batch))
        return len(batches)

    def drain(self) -> None:
        self.uplink.end()
        for _ in range(2000):
            self.exchange()
            if self.uplink.drained:
                return
            self.settle_uploads()
        raise AssertionError("it never drained")

    def settle_uploads(self) -> None:
        self._executor.submit(lambda: None).result()

    def log(self, text: str, rank: int = 0) -> None:
        with open(self.folder.rank_log(rank), "a") as file:
            file.write(text)

    def line(self, text: str | bytes, rank: int = 0) -> None:
        """Into the spool, whatever it is."""
        with open(self.folder.spool / f"rank-{rank}.jsonl", "ab") as file:
            file.write((text if isinstance(text, bytes) else text.encode()) + b"\n")

    def event(self, **event: object) -> None:
        self.line(json.dumps({"at_ms": 7, **event}))

    def metrics(self, step: int, **values: float) -> None:
        self.event(kind="metrics", step=step, values=values or {"loss": 0.5})

    def steps(self, rank: int = 0) -> list[int]:
        """Of the metrics that the server has."""
        return [json.loads(line)["step"] for line in self.server.text(Source.SPOOL, rank).splitlines()]

    def notes(self) -> str:
        """What the platform said in the log of the attempt."""
        return self.server.text(Source.LOG, LAUNCHER_RANK_BASE)

    def checkpoint(self, step: int) -> Path:
        path = self.folder.checkpoints / f"step-{step:08d}"
        path.mkdir()
        (path / "model.bin").write_bytes(b"weights of %d" % step)
        self.event(
            kind="checkpoint", at_ms=7, step=step, path=f"checkpoints/{path.name}", metrics={"loss": 0.5}
        )
        return path
