"""The verbs of experiments and runs, for the doors and the apps above. Each subject has its module beside this one."""

from webapp.experiments.changes import change_run
from webapp.experiments.experiments import (
    DEFAULT_EXPERIMENT,
    archive_experiment,
    create_experiment,
    delete_experiment,
    ensure_experiment,
    restore_experiment,
    set_experiment_tags,
    update_experiment,
)
from webapp.experiments.file_uploads import abort as abort_upload
from webapp.experiments.file_uploads import check as check_upload
from webapp.experiments.file_uploads import complete as complete_upload
from webapp.experiments.file_uploads import receive as receive_part
from webapp.experiments.file_uploads import start as start_upload
from webapp.experiments.files import as_model as model_of_files
from webapp.experiments.files import delete as delete_files
from webapp.experiments.files import handed_over
from webapp.experiments.files import listing as list_files
from webapp.experiments.files import put as put_file
from webapp.experiments.files import read as read_file
from webapp.experiments.logged_models import (
    add_logged_model_parameters,
    create_logged_model,
    delete_logged_model,
    finalize_logged_model,
    find_logged_model,
    log_inputs,
    log_model_metrics,
    log_outputs,
    logged_models,
    set_logged_model_tags,
)
from webapp.experiments.removal import archive_runs, delete_runs, restore_runs
from webapp.experiments.reports import (
    Batch,
    Point,
    add_artifact,
    add_reported_tags,
    describe_run,
    follow_jobs,
    ingest,
    ingest_series,
    log_batch,
    log_points,
)
from webapp.experiments.rich_values import ingest as ingest_value
from webapp.experiments.rich_values import log_value
from webapp.experiments.runs import (
    create_run,
    delete_tags,
    finish_run,
    log_new_parameters,
    log_parameters,
    make_run,
    set_tags,
    tag_runs,
    update_run,
)

__all__ = [
    "DEFAULT_EXPERIMENT",
    "Batch",
    "Point",
    "abort_upload",
    "add_artifact",
    "add_logged_model_parameters",
    "add_reported_tags",
    "archive_experiment",
    "archive_runs",
    "change_run",
    "check_upload",
    "complete_upload",
    "create_experiment",
    "create_logged_model",
    "create_run",
    "delete_experiment",
    "delete_files",
    "delete_logged_model",
    "delete_runs",
    "delete_tags",
    "describe_run",
    "ensure_experiment",
    "finalize_logged_model",
    "find_logged_model",
    "finish_run",
    "follow_jobs",
    "handed_over",
    "ingest",
    "ingest_series",
    "ingest_value",
    "list_files",
    "log_batch",
    "log_inputs",
    "log_model_metrics",
    "log_new_parameters",
    "log_outputs",
    "log_parameters",
    "log_points",
    "log_value",
    "logged_models",
    "make_run",
    "model_of_files",
    "put_file",
    "read_file",
    "receive_part",
    "restore_experiment",
    "restore_runs",
    "set_experiment_tags",
    "set_logged_model_tags",
    "set_tags",
    "start_upload",
    "tag_runs",
    "update_experiment",
    "update_run",
]
