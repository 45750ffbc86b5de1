"""What is deleted leaves the store with retention; what a model or a limit needs is kept; races with deletion."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings, settings

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from platform_core.experiments import rich_values as core
from tests.support.rivals import rival
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.world import PNG
from trainmaster.store.address import located
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import services
from webapp.experiments.models import Experiment, FileUpload, LoggedModel, Run
from webapp.experiments.retention import remove_deleted
from webapp.experiments.services import Batch
from webapp.jobs.models import Job
from webapp.metrics import queries as metrics
from webapp.metrics.values import Points
from webapp.registry import services as registry

Who = Callable[[User], Actor]
LONG_AFTER = 1 << 52


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def experiment(alice: Actor) -> Experiment:
    return services.create_experiment(alice, "vision", "rates")


@pytest.fixture
def run(alice: Actor, experiment: Experiment) -> Run:
    return services.create_run(alice, experiment)


def image(data: bytes = PNG) -> core.RichValue:
    return core.checked(key="sample", step=1, index=0, kind="image", at_ms=1, data=data)


def fill(alice: Actor, run: Run) -> LoggedModel:
    """A file, one that was replaced, an image, a logged model with a file, and an upload that nobody completed."""
    services.put_file(alice, run, "notes.txt", io.BytesIO(b"old"))
    services.put_file(alice, run, "notes.txt", io.BytesIO(b"new"))
    services.log_value(alice, run, image())
    model = services.create_logged_model(alice, run.experiment, "forest", run=run)
    services.put_file(alice, model, "MLmodel", io.BytesIO(b"flavors"))
    upload = services.start_upload(alice, run, "large.bin", 2)
    services.receive_part(upload.id, 1, io.BytesIO(b"half"))
    return model


def files_of(*names: str) -> list[str]:
    """Of the file store, below the folders that runs and logged models use."""
    root = Path("/", *located(settings.STORE_URL).parts)
    folders = [root / kind for kind in ("runs", "values", "logged-models", "parts")]
    found = [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]
    return sorted(
        path.relative_to(root).parts[0] for path in found if not names or set(names) & set(path.parts)
    )


def test_retention_takes_every_byte_of_a_deleted_run_out_of_the_store(
    alice: Actor, experiment: Experiment, run: Run
) -> None:
    model, other = fill(alice, run), services.create_run(alice, experiment)
    kept = fill(alice, other)
    upload = FileUpload.objects.get(run=run)
    of_run = (run.id, model.id, upload.id)
    assert files_of(*of_run) == ["logged-models", "parts", "runs", "values"]
    services.delete_runs(alice, [run.id])
    remove_deleted()
    assert len(files_of(*of_run)) == 4
    assert remove_deleted(LONG_AFTER) == 1
    assert files_of(*of_run) == []
    assert len(files_of(other.id, kept.id)) == 3
    assert list(LoggedModel.objects.values_list("id", flat=True)) == [kept.id]


def test_retention_takes_out_the_models_of_a_deleted_experiment_and_deleted_models(
    alice: Actor, experiment: Experiment, run: Run
) -> None:
    loose = services.create_logged_model(alice, experiment, "loose")
    services.put_file(alice, loose, "MLmodel", io.BytesIO(b"flavors"))
    elsewhere = services.create_experiment(alice, "vision", "kept")
    dropped = services.create_logged_model(alice, elsewhere, "dropped")
    services.put_file(alice, dropped, "MLmodel", io.BytesIO(b"flavors"))
    services.delete_logged_model(alice, dropped)
    services.delete_experiment(alice, experiment)
    assert files_of(loose.id, dropped.id) == ["logged-models", "logged-models"]
    remove_deleted(LONG_AFTER)
    assert files_of(loose.id, dropped.id) == []
    assert [row.name for row in Experiment.objects.filter(team="vision")] == ["kept"]


def test_files_that_became_a_version_of_a_model_stay_in_the_store(alice: Actor, run: Run) -> None:
    model = fill(alice, run)
    forest = registry.create_model(alice, "vision", "forest")
    version = registry.register_logged(alice, forest, "", files=(model, ""), run=run)
    services.delete_runs(alice, [run.id])
    remove_deleted(LONG_AFTER)
    assert files_of(run.id, model.id) == ["logged-models"]
    version.refresh_from_db()
    assert (version.state, version.run_id) == ("ready", None)


def test_files_and_values_of_runs_count_against_one_limit(
    alice: Actor, run: Run, settings: LazySettings
) -> None:
    services.log_value(alice, run, image(PNG + bytes(600 - len(PNG))))
    settings.TEAM_UPLOAD_LIMIT_BYTES = 1_000
    with pytest.raises(
        TrainmasterError, match=r"notes.txt does not fit: .* have 600 B of 1000 B. Delete runs"
    ) as full:
        services.put_file(alice, run, "notes.txt", io.BytesIO(bytes(500)))
    assert full.value.code == "too_large"
    services.put_file(alice, run, "notes.txt", io.BytesIO(bytes(300)))
    with pytest.raises(TrainmasterError, match=r"sample with .* does not fit"):
        services.log_value(alice, run, image(PNG + bytes(200)))


def test_a_batch_beyond_the_limit_of_metrics_is_refused_whole(
    alice: Actor, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "MAX_METRICS", 3)
    batch = [Points(f"metric-{number}", [1], [1.0], [1]) for number in range(4)]
    services.log_points(alice, run, batch[:3])
    with pytest.raises(TrainmasterError, match=r"4 metrics.*limit is 3"):
        services.log_points(alice, run, batch[3:])
    with pytest.raises(TrainmasterError, match=r"4 metrics.*limit is 3"):
        services.log_batch(alice, run, Batch(points=batch[3:], parameters={"lr": 1}))
    services.log_points(alice, run, [Points("metric-0", [2], [2.0], [2])])
    assert metrics.keys([run.id]) == ["metric-0", "metric-1", "metric-2"]
    run.refresh_from_db()
    assert run.parameters == {}


@pytest.mark.usefixtures("cluster")
def test_a_job_submitted_while_its_experiment_is_deleted_gets_a_living_one(
    transactional_db: None, alice: Actor, submit: Callable[..., Job]
) -> None:
    experiment = services.create_experiment(alice, "vision", "rates")
    jobs: list[Any] = []
    outcome: list[str] = []
    with rival(lambda: jobs.append(submit(experiment="rates")), outcome) as begins:
        services.delete_experiment(alice, experiment)
        begins()
    assert outcome == ["done"]
    run = Run.objects.select_related("experiment").get(id=jobs[0].id)
    assert (run.deleted_ms, run.experiment.deleted_ms, run.experiment.name) == (None, None, "rates")
    assert run.experiment_id != experiment.pk


@pytest.mark.usefixtures("cluster")
def test_an_experiment_is_not_deleted_under_a_job_that_is_being_submitted(
    transactional_db: None, alice: Actor, submit: Callable[..., Job]
) -> None:
    experiment = services.create_experiment(alice, "vision", "rates")
    outcome: list[str] = []
    with rival(lambda: services.delete_experiment(alice, experiment), outcome) as begins:
        submit(experiment="rates")
        begins()
    assert outcome == ["illegal_transition"]
    experiment.refresh_from_db()
    assert experiment.deleted_ms is None
