"""Jobs and events to begin a test with."""

from __future__ import annotations

from dataclasses import dataclass, field

from platform_core.jobs import events as ev
from platform_core.jobs.effects import Effect
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Job, Member, MemberPhase
from platform_core.jobs.spec import JobSpec, parse
from platform_core.jobs.transitions import advance, submit

HOUR_MS = 3_600_000
PREPARING, RUNNING, EXITED, LOST = (
    MemberPhase.PREPARING, MemberPhase.RUNNING, MemberPhase.EXITED, MemberPhase.LOST,
)  # fmt: skip
MINIMAL = {"name": "bytelm", "team": "vision", "command": "python train.py", "gpu_type": "a100-80gb"}


def spec(**fields: object) -> JobSpec:
    return parse({**MINIMAL, "num_gpus": 4, **fields})


def members(*nodes: str, slots: int = 2) -> tuple[Member, ...]:
    return tuple(Member(node, rank, tuple(range(slots))) for rank, node in enumerate(nodes))


@dataclass
class Story:
    """Plays events into a job and keeps what came of them. Time goes on by a second with each event."""

    job: Job
    now_ms: int = 1_000
    effects: list[Effect] = field(default_factory=list)

    def tell(self, kind: type[ev.Event], **details: object) -> Story:
        self.now_ms += 1_000
        event = kind(**{"at_ms": self.now_ms, **details})  # type: ignore[arg-type]
        step = advance(self.job, event)  # type: ignore[arg-type]
        self.job = step.job
        self.effects = list(step.effects)
        return self

    def place(self, *nodes: str) -> Story:
        self.now_ms = max(self.now_ms, self.job.not_before_ms)
        return self.tell(ev.Placed, attempt=self.job.attempt + 1, members=members(*nodes), actor="scheduler")

    def see(
        self,
        node: str,
        phase: MemberPhase,
        exit_code: int | None = None,
        reason: str = "",
        end: EndReason = EndReason.SCRIPT_ERROR,
    ) -> Story:
        return self.tell(
            ev.MemberObserved,
            attempt=self.job.attempt, node=node, phase=phase, exit_code=exit_code, reason=reason, end=end,
        )  # fmt: skip

    def run(self, *nodes: str, for_ms: int = HOUR_MS) -> Story:
        """It has run for so long: what fails soon after its start is judged otherwise."""
        self.place(*nodes)
        for node in nodes:
            self.see(node, PREPARING).see(node, RUNNING)
        self.now_ms += for_ms
        return self

    def save(self, step: int) -> Story:
        return self.tell(ev.CheckpointSaved, attempt=self.job.attempt, step=step, checkpoint=f"ckpt-{step}")

    def fail(self, node: str, exit_code: int = 1) -> Story:
        """This node's part ends with the code, and the others are stopped."""
        self.see(node, EXITED, exit_code)
        for member in self.job.living:
            self.see(member.node, EXITED, 143)
        return self

    def told(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


def waiting(**fields: object) -> Story:
    step = submit("job-1", spec(**fields), ev.Submitted(at_ms=1_000, actor="user:alice"))
    return Story(step.job)


def running(*nodes: str, **fields: object) -> Story:
    return waiting(**fields).run(*(nodes or ("node-a", "node-b")))
