"""The history of a job over its attempts: where its time went, and what was lost."""

from collections import Counter
from dataclasses import dataclass

from platform_core.jobs import recovery
from webapp.jobs.mapping import failures
from webapp.jobs.models import Attempt, Job, Member


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt. `waited_ms` is the wait before it; the steps are known of scripts that tell them."""

    number: int
    waited_ms: int
    placed_ms: int
    ended_ms: int | None  # None: it holds its slots
    outcome: str
    last_step: int | None
    kept_step: int | None  # of the checkpoint that was left when it ended; None: there was none
    lost_gpu_ms: int

    @property
    def lost_steps(self) -> int:
        """Steps that the next attempt has to do again."""
        return max(0, (self.last_step or 0) - (self.kept_step or 0)) if self.lost_gpu_ms else 0


@dataclass(frozen=True, slots=True)
class History:
    spans: tuple[Span, ...]  # the first attempt first
    waited_ms: int  # before all attempts, and since the last one
    ran_ms: int  # in attempts, while it held its slots
    whole_ms: int  # since its submission

    @property
    def lost_steps(self) -> int:
        return sum(span.lost_steps for span in self.spans)

    @property
    def lost_gpu_ms(self) -> int:
        return sum(span.lost_gpu_ms for span in self.spans)


def of(job: Job, now_ms: int) -> History:
    spans: list[Span] = []
    until_ms = job.finished_ms or now_ms
    free_ms = job.submitted_ms
    ran_ms = 0
    for row in Attempt.objects.filter(job=job).order_by("number"):
        spans.append(
            Span(
                row.number, max(0, row.placed_ms - free_ms), row.placed_ms, row.ended_ms, row.outcome, row.last_step,
                row.kept_step, row.lost_gpu_ms,
            )
        )  # fmt: skip
        free_ms = row.ended_ms or until_ms
        ran_ms += max(0, free_ms - row.placed_ms)
    whole_ms = max(0, until_ms - job.submitted_ms)
    return History(tuple(spans), max(0, whole_ms - ran_ms), ran_ms, whole_ms)


def sizes(job_id: str) -> list[int]:
    """The GPUs that its attempts had, the first attempt first."""
    rows = Member.objects.filter(attempt__job=job_id).order_by("attempt__number")
    gpus: Counter[int] = Counter()
    for number, slots in rows.values_list("attempt__number", "slots"):
        gpus[number] += len(slots)
    return list(gpus.values())


def losses_ms(job: Job) -> tuple[int, ...]:
    """When attempts of it ended because a machine failed, ascending."""
    return recovery.losses_ms(failures(job))
