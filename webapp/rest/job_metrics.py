"""Families of the jobs that train, for Prometheus: one sample of each for a job, as long as it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from platform_core.efficiency.mfu import believable
from webapp.jobs import measures as jobs
from webapp.metrics import queries as metrics

LABELS = ("team", "job", "name")
# By series of the first rank, which stands for the others; platform_core/experiments/names.py.
_OF_RANK_0 = {
    "ranks/0/mfu": ("job_mfu_ratio", "Model FLOPs utilisation that the SDK last measured, 0 to 1."),
    "ranks/0/step_seconds": ("job_step_seconds", "Mean time of a step that the SDK last measured."),
    "ranks/0/data_share": ("job_data_wait_ratio", "Share of its time that a job waits for data, 0 to 1."),
    "ranks/0/tokens_per_second": ("job_rank_tokens_per_second", "Tokens a second of the first rank."),
    "ranks/0/samples_per_second": ("job_rank_samples_per_second", "Samples a second of the first rank."),
}


def of_jobs(teams: Iterable[str] | None) -> Iterator[Metric]:
    """None is all teams."""
    seen = None if teams is None else set(teams)
    running = [job for job in jobs.running() if seen is None or job.team in seen]
    known = metrics.summaries([job.id for job in running], tuple(_OF_RANK_0))
    used = _family("job_utilisation_ratio", "Mean utilisation of the slots that a job holds, 0 to 1.")
    steps = _family("job_step", "Step that a job has reached.")
    measured = {key: _family(name, words) for key, (name, words) in _OF_RANK_0.items()}
    for job in running:
        labels = (job.team, job.id, job.name)
        if job.utilisation is not None:
            used.add_metric(labels, job.utilisation)
        if job.step is not None:
            steps.add_metric(labels, job.step)
        for key, summary in known[job.id].items():
            if key != "ranks/0/mfu" or believable(summary.last) is not None:
                measured[key].add_metric(labels, summary.last)
    yield from (used, steps, *measured.values())


def _family(name: str, words: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"trainmaster_{name}", words, labels=LABELS)
