"""What is deleted for its age: logs, events, metric points, runs in the bin and unused versions of datasets; and what
would go next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from platform_core.lineage.graph import Kind
from platform_core.units import DAY_MS, plural
from webapp.base.identity import now_ms
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services
from webapp.evaluations import queries as evaluations
from webapp.events import queries as event_queries
from webapp.events import services as events
from webapp.experiments import queries as runs
from webapp.jobs import logs
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.metrics import queries as metrics
from webapp.recalls import queries as recalls
from webapp.serving import queries as serving

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Policy:
    what: str
    setting: str
    days: int  # 0: kept for ever
    due: int  # items that go at the next turns


def policies() -> list[Policy]:
    """The dry run: nothing is deleted by it."""
    return [
        Policy("logs of ended jobs", "TRAINMASTER_LOG_RETENTION_DAYS", settings.LOG_RETENTION_DAYS,
               logs.expired(_before(settings.LOG_RETENTION_DAYS))),
        Policy("events and audit log", "TRAINMASTER_EVENT_RETENTION_DAYS", settings.EVENT_RETENTION_DAYS,
               event_queries.expired(_before(settings.EVENT_RETENTION_DAYS))),
        Policy("metric points of silent runs", "TRAINMASTER_METRIC_RETENTION_DAYS", settings.METRIC_RETENTION_DAYS,
               metrics.silent_since(_before(settings.METRIC_RETENTION_DAYS))),
        Policy("deleted runs with their files", "TRAINMASTER_RUN_RETENTION_DAYS", settings.RUN_RETENTION_DAYS,
               runs.deleted_before(now_ms() - settings.RUN_RETENTION_DAYS * DAY_MS)),
        Policy("unused versions of followed datasets", "TRAINMASTER_FOLLOWED_VERSION_DAYS",
               settings.FOLLOWED_VERSION_DAYS, len(_unused_versions())),
    ]  # fmt: skip


def retain() -> None:
    """One turn. Each goes on with what is left at the next one."""
    if settings.LOG_RETENTION_DAYS:
        job_services.delete_logs(_before(settings.LOG_RETENTION_DAYS))
    if settings.EVENT_RETENTION_DAYS:
        events.delete_before(_before(settings.EVENT_RETENTION_DAYS))
    why = f"which nothing used for {plural(settings.FOLLOWED_VERSION_DAYS, 'day')}"
    dataset_services.forget_versions(_unused_versions()[:AT_ONCE], why)
    for one in serving.request_data():
        versions = datasets.superseded_of(one.team, one.dataset, _before(one.days))
        why = f"whose requests may be kept for {plural(one.days, 'day')}"
        dataset_services.forget_versions(_unused(versions)[:AT_ONCE], why)


def _unused_versions() -> list[str]:
    """Of followed datasets."""
    return _unused(datasets.superseded(_before(settings.FOLLOWED_VERSION_DAYS)))


def _unused(versions: Sequence[str]) -> list[str]:
    """Those that no job, run or suite names, and nobody has recalled."""
    used = {
        *jobs.counts_by_dataset(versions),
        *(version for _, version in runs.using_datasets(versions)),
        *evaluations.datasets_of_suites(),
        *recalls.whys(Kind.DATASET, versions),
    }
    return [version for version in versions if version not in used]


def _before(days: int) -> int:
    """0, before which nothing was, where they are kept for ever."""
    return now_ms() - days * DAY_MS if days else 0
