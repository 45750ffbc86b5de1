"""The verbs of experiments and runs, for the doors and the apps above. Each subject has its module beside this one."""

from webapp.experiments.experiments import (
    DEFAULT_EXPERIMENT,
    archive_experiment,
    create_experiment,
    delete_experiment,
    ensure_experiment,
    restore_experiment,
    update_experiment,
)
from webapp.experiments.metric_store import Point
from webapp.experiments.reports import add_artifact, describe_run, follow_jobs, ingest
from webapp.experiments.runs import (
    archive_runs,
    create_run,
    delete_runs,
    delete_tags,
    finish_run,
    log_parameters,
    make_run,
    restore_runs,
    set_tags,
    update_run,
)

__all__ = [
    "DEFAULT_EXPERIMENT",
    "Point",
    "add_artifact",
    "archive_experiment",
    "archive_runs",
    "create_experiment",
    "create_run",
    "delete_experiment",
    "delete_runs",
    "delete_tags",
    "describe_run",
    "ensure_experiment",
    "finish_run",
    "follow_jobs",
    "ingest",
    "log_parameters",
    "make_run",
    "restore_experiment",
    "restore_runs",
    "set_tags",
    "update_experiment",
    "update_run",
]
