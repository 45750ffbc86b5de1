"""How experiments stand: the best of all their runs, though only the newest say what they are judged by."""

from collections.abc import Callable, Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import services
from webapp.experiments.models import Experiment, Run
from webapp.experiments.standings import NEWEST, standings
from webapp.metrics import services as store
from webapp.metrics.values import Points

Add = Callable[..., Run]


@pytest.fixture
def alice(cast: Cast, actor: Callable[[User], Actor]) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def add(alice: Actor) -> Add:
    def make(experiment: Experiment, name: str, **metrics: Sequence[float]) -> Run:
        run = services.create_run(alice, experiment, name=name)
        for key, values in metrics.items():
            store.append(run.id, [Points(key, list(range(len(values))), list(values), [1] * len(values))])
        return run

    return make


def test_an_early_run_is_the_best_though_many_came_after_it(alice: Actor, add: Add) -> None:
    experiment = services.create_experiment(alice, "vision", "rates")
    best = add(experiment, "early", val_loss=[0.9, 0.1, 0.4])
    for number in range(NEWEST + 1):
        add(experiment, f"late-{number}", val_loss=[0.5 + number])
    standing = standings([experiment])[experiment.pk]
    assert standing.runs == NEWEST + 2
    assert standing.best is not None
    assert (standing.best.run, standing.best.rule, standing.best.value) == (best, "lowest", 0.1)


def test_runs_without_metrics_values_that_are_not_finite_and_deleted_runs_do_not_count(
    alice: Actor, add: Add
) -> None:
    experiment = services.create_experiment(alice, "vision", "rates")
    good = add(experiment, "good", accuracy=[0.2, 0.6])
    add(experiment, "broken", accuracy=[float("nan")])
    deleted = add(experiment, "deleted", accuracy=[0.9])
    services.delete_runs(alice, [deleted.id])
    for number in range(NEWEST):
        add(experiment, f"silent-{number}")
    standing = standings([experiment])[experiment.pk]
    assert standing.best is not None
    assert (standing.best.run, standing.best.rule, standing.best.value) == (good, "highest", 0.6)


def test_an_experiment_without_runs_changed_when_it_was_made(alice: Actor) -> None:
    experiment = services.create_experiment(alice, "vision", "rates")
    standing = standings([experiment])[experiment.pk]
    assert (standing.runs, standing.best, standing.changed_ms) == (0, None, experiment.created_ms)


def test_the_number_of_statements_does_not_grow_with_experiments_and_runs(alice: Actor, add: Add) -> None:
    def statements(experiments: list[Experiment]) -> int:
        with CaptureQueriesContext(connection) as captured:
            standings(experiments)
        return len(captured)

    experiments = [services.create_experiment(alice, "vision", f"rates-{number}") for number in range(4)]
    add(experiments[0], "first", loss=[1.0])
    before = statements(experiments[:1])
    for experiment in experiments:
        for number in range(5):
            add(experiment, f"run-{number}", loss=[float(number)], grad_norm=[1.0])
    assert statements(experiments) == before
