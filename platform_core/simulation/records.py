"""The record of a simulated job beside its state machine value, and how a round sees both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from platform_core.checkpointing.retention import Kept
from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs.job import Job, Stop
from platform_core.jobs.recovery import losses_ms
from platform_core.jobs.spec import CheckpointPolicy, JobSpec, Strategy
from platform_core.simulation.script import Script
from platform_core.simulation.workload import Knowledge, TraceJob, restart_ms


@dataclass(slots=True)
class Record:
    """`done_ms` is the work saved in the checkpoint from which its next attempt resumes."""

    trace: TraceJob
    job: Job
    knowledge: Knowledge  # what the scheduler knows of its run time
    done_ms: int = 0
    attained_gpu_ms: int = 0  # in members that have ended
    preemptions: int = 0
    checkpoints: tuple[Kept, ...] = ()
    resize_to: int = 0
    reserved_nodes: tuple[str, ...] = ()
    reserved_until_ms: int | None = None
    offered_ms: int = 0  # see PendingJob
    script: Script | None = None  # of the current attempt

    @property
    def attempt_id(self) -> str:
        return f"{self.job.id}/{self.job.attempt}"

    @property
    def left_ms(self) -> int | None:
        """The exact time left; None where the scheduler knows only the limit."""
        if self.knowledge is Knowledge.LIMITS:
            return None
        return max(0, self.trace.duration_ms - self.done_ms) + self.resume_ms

    @property
    def resume_ms(self) -> int:
        """How long its next attempt takes before the work continues."""
        return restart_ms(self.trace.gpus) if self.job.attempt else 0

    def begin(self, slots: int, nodes: int, racks: int, now_ms: int) -> tuple[int, int]:
        """Start a script on such a place. Returns the times of a step there and on its fastest place."""
        step_us = self.trace.step_us(nodes, racks)
        self.script = Script(self.trace, slots, self.done_ms, now_ms, self.done_ms, self.resume_ms, step_us)
        return step_us


def spec_of(job: TraceJob, gpu_type: str) -> JobSpec:
    """The spec that its user would have submitted."""
    return JobSpec(
        name=job.id,
        team=job.team,
        project="",
        command=(),
        code="",
        container_image="",
        environment=(),
        secrets=(),
        num_gpus=job.gpus,
        min_gpus=job.min_gpus or job.gpus,
        gpu_type=gpu_type,
        cpus_per_gpu=0,
        memory_per_gpu_bytes=0,
        priority=job.priority,
        preemptible=job.preemptible,
        max_runtime_ms=job.limit_ms,
        strategy=Strategy.CUSTOM,
        checkpoint=CheckpointPolicy(interval_ms=job.saving.every_ms),
        resume_from="",
        dataset="",
        purpose="",
        hyperparameters=(),
        tags=(),
        seed=None,
        experiment="",
    )


def as_pending(record: Record) -> PendingJob:
    job = record.job
    submitted = PendingJob.of_spec(
        job.spec, id=job.id, user="", submitted_ms=job.submitted_ms, waiting_since_ms=job.waiting_since_ms
    )
    return replace(
        submitted,
        excluded_nodes=job.excluded_nodes,
        attained_gpu_ms=record.attained_gpu_ms,
        expected_runtime_ms=record.left_ms,
        resize_to=record.resize_to,
        resize_on=tuple([member.node for member in job.members]) if record.resize_to else (),
        reserved_nodes=record.reserved_nodes,
        reserved_until_ms=record.reserved_until_ms,
        not_before_ms=job.not_before_ms,
        place_steps=record.trace.place_steps,
        offered_ms=record.offered_ms,
    )


def as_running(
    record: Record, asked: PendingJob, expected_end_ms: int, measured_ms: int | None
) -> RunningJob:
    """The job as it runs. `asked`: the job as it waited; `measured_ms`: the measured restart time."""
    job, trace = record.job, record.trace
    assert job.started_ms is not None
    asks = asked
    if asked.resize_to or asked.reserved_nodes:
        asks = replace(asked, resize_to=0, resize_on=(), reserved_nodes=(), reserved_until_ms=None)
    return RunningJob(
        id=job.id,
        team=asked.team,
        gpu_type=asked.gpu_type,
        priority=asked.priority,
        placement=tuple([(member.node, member.slots) for member in job.members]),
        started_ms=job.started_ms,
        expected_end_ms=expected_end_ms,
        last_checkpoint_ms=None,
        preemptible=asked.preemptible,
        num_gpus=asked.num_gpus,
        min_gpus=asked.min_gpus,
        submitted_ms=asked.submitted_ms,
        attained_gpu_ms=asked.attained_gpu_ms,
        max_runtime_ms=asked.max_runtime_ms,
        saves_when_stopped=trace.saving.when_stopped,
        asks=asks,
        restart_ms=measured_ms,
        preemptions=record.preemptions,
        losses_ms=losses_ms(job.failures) if asked.min_gpus < asked.num_gpus else (),
    )


def as_it_goes_on(running: RunningJob, record: Record) -> RunningJob:
    """The running job after a save, the end of a member or a stop request."""
    job = record.job
    comes_back = job.spec.preemptible and job.stop in (Stop.NONE, Stop.PREEMPT)
    return replace(
        running,
        placement=tuple([(member.node, member.slots) for member in job.living]),
        last_checkpoint_ms=job.latest_ms if job.latest_attempt == job.attempt else None,
        preemptible=running.preemptible and not job.stopping,
        asks=as_pending(record) if comes_back else None,
        stopping=job.stopping,
    )
