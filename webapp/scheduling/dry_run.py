"""Why a job that has not been submitted yet would wait: the same engine, asked about one job more."""

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob
from platform_core.jobs.spec import JobSpec
from platform_core.scheduling.engine import plan
from webapp.live.identity import now_ms
from webapp.scheduling import situation

_ASKED = "job-~asked"  # sorts after every real id, so that it never goes before an equal


def why_it_would_wait(spec: JobSpec, username: str) -> str:
    """The engine's sentence, or "" when it would start in the next round."""
    now = now_ms()
    snapshot = situation.load(now)
    asked = PendingJob(
        id=_ASKED,
        team=spec.team,
        user=username,
        num_gpus=spec.num_gpus,
        min_gpus=spec.min_gpus,
        gpu_type=spec.gpu_type,
        priority=spec.priority,
        submitted_ms=now,
        excluded_nodes=(),
        preemptible=spec.preemptible,
        max_runtime_ms=spec.max_runtime_ms,
        waiting_since_ms=now,
        cpus_per_gpu=spec.cpus_per_gpu,
        memory_per_gpu_bytes=spec.memory_per_gpu_bytes,
        strategy=spec.strategy,
        constraints=spec.placing,
    )
    with_it = replace(snapshot, pending=(*snapshot.pending, asked))
    decided = plan(with_it, situation.policy())
    return next((wait.sentence for wait in decided.waits if wait.job_id == _ASKED), "")
