"""Search of runs: the SQL finds what the pure function matches, and pages go on where they ended."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_core.errors import TrainmasterError
from platform_core.experiments.search import RunValues, matches, parse_filter
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment, Run, RunDataset
from webapp.metrics import services as store
from webapp.metrics.values import Points

KEYS = ("loss", "train/loss", "a b", "lr")
TEXTS = ("", "prod", "Prod", "dev_1", "10%", "1e-3", "0.001", "true", "it's", "-3", ".5", "1e400", "x\ny")
NUMBERS = (0, 1, -3, 0.001, 0.5, 1e-5, 2.5e10, 1e308)
METRICS = (*NUMBERS, float("nan"), float("inf"))
VALUES = (*TEXTS, *NUMBERS, True, False, None, [1, 2], {"a": 1})
STATES = ("pending", "running", "succeeded", "failed", "cancelled")


def random_run(number: int, rng: random.Random, experiment: Experiment, owner: User) -> Run:
    def some(values: Any) -> dict[str, Any]:
        return {key: rng.choice(values) for key in KEYS if rng.random() < 0.6}

    started = rng.choice((None, 1_000_000, 1_002_500))
    return Run(
        id=f"{number:032x}",
        experiment=experiment,
        name=rng.choice(TEXTS) or "unnamed",
        owner=rng.choice((owner, None)),
        state=rng.choice(STATES),
        parent_id=f"{0:032x}" if number and rng.random() < 0.3 else None,
        group=rng.choice(("", "seeds", "Prod")),
        parameters=some(VALUES),
        tags=some(TEXTS),
        source=rng.choice(("sdk", "api")),
        started_ms=started,
        ended_ms=rng.choice((None, 1_003_000)) if started else None,
        created_ms=rng.choice((500, 600)),
        changed_ms=600,
        archived_ms=rng.choice((None, 700)),
        gpu_type=rng.choice(("", "h100-80gb")),
        mfu=rng.choice((None, 0.5, 0.001)),
        gpu_ms=rng.choice((None, 1_800_000)),
        micro_dollars=rng.choice((None, 1_000)),
    )


def values_of(run: Run, metrics: dict[str, float], datasets: list[dict[str, str]]) -> RunValues:
    ends = run.started_ms is not None and run.ended_ms is not None
    finite = {key: [3.0, *filter(math.isfinite, [value])] for key, value in metrics.items()}
    return RunValues(
        metrics=metrics,
        lowest={key: min(values) for key, values in finite.items()},
        highest={key: max(values) for key, values in finite.items()},
        parameters=run.parameters,
        tags=run.tags,
        attributes={
            "name": run.name, "run_id": run.id, "state": run.state, "owner": run.owner_name,
            "user": run.lineage.get("user") or run.owner_name, "group": run.group,
            "parent": run.parent_id, "source": run.source, "start_time": run.started_ms, "end_time": run.ended_ms,
            "created": run.created_ms, "archived": run.archived_ms is not None,
            "duration": (run.ended_ms - run.started_ms) / 1000 if ends else None,
            "gpu_type": run.gpu_type or None, "mfu": run.mfu,
            "gpu_hours": run.gpu_ms / 3_600_000 if run.gpu_ms is not None else None,
            "cost": run.micro_dollars / 1_000_000 if run.micro_dollars is not None else None,
            "artifact_uri": f"mlflow-artifacts:/{run.experiment_id}/{run.id}/artifacts",
        },
        datasets=datasets,
    )  # fmt: skip


def random_dataset(rng: random.Random, digest: str) -> dict[str, str]:
    dataset = {"name": rng.choice(TEXTS), "digest": digest}
    return dataset | ({"context": rng.choice(TEXTS)} if rng.random() < 0.5 else {})


def keep_dataset(run: Run, dataset: dict[str, str]) -> None:
    tags = {"mlflow.data.context": dataset["context"]} if "context" in dataset else {}
    RunDataset.objects.create(run=run, name=dataset["name"], digest=dataset["digest"], tags=tags)


def keep_metrics(run: Run, metrics: dict[str, float]) -> None:
    store.append(run.id, [Points(key, [1, 2], [3.0, value], [5, 6]) for key, value in metrics.items()])


@pytest.fixture
def population(cast: Cast, experiment: Experiment) -> dict[str, RunValues]:
    rng = random.Random(7)
    runs = Run.objects.bulk_create([random_run(number, rng, experiment, cast.owner) for number in range(80)])
    metrics = {run.id: {key: rng.choice(METRICS) for key in KEYS if rng.random() < 0.6} for run in runs}
    datasets = {
        run.id: [random_dataset(rng, digest) for digest in rng.choice(((), ("a1",), ("a1", "b2")))]
        for run in runs
    }
    for run in runs:
        keep_metrics(run, metrics[run.id])
        for dataset in datasets[run.id]:
            keep_dataset(run, dataset)
    return {run.id: values_of(run, metrics[run.id], datasets[run.id]) for run in runs}


@pytest.fixture
def experiment(teams: Any) -> Experiment:
    return services.create_experiment(SYSTEM, "vision", "rates")


quoted = st.sampled_from(TEXTS).map(lambda text: "'" + text.replace("'", "''") + "'")
number = st.sampled_from(NUMBERS).map(str)
keys = st.sampled_from((*KEYS, "unknown")).map("`{}`".format)
equality = st.sampled_from(("=", "!="))
ordering = st.sampled_from(("<", "<=", ">", ">="))
membership = st.sampled_from(("IN", "NOT IN"))
pattern = st.sampled_from(("'%'", "'pro_'", "'PROD'", "'%1\\%'", "'10%'", "'_\n_'", "'1%'"))


def compared(field: st.SearchStrategy[str], *tests: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    null = st.sampled_from(("IS NULL", "IS NOT NULL"))
    return st.builds("{} {}".format, field, st.one_of(null, *tests))


def one(operator: st.SearchStrategy[str], value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("{} {}".format, operator, value)


def several(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    listed = st.lists(value, min_size=1, max_size=3).map(lambda values: f"({', '.join(values)})")
    return st.builds("{} {}".format, membership, listed)


of_text = (one(equality, quoted), several(quoted), one(st.sampled_from(("LIKE", "ILIKE")), pattern))
of_number = (one(equality, number), one(ordering, number), several(number))
texts = st.sampled_from(
    (
        "name",
        "owner",
        "user",
        "group",
        "parent",
        "source",
        "run_id",
        "artifact_uri",
        "datasets.name",
        "datasets.context",
    )
)
moments = st.sampled_from(("start_time", "end_time", "created", "duration", "mfu", "gpu_hours", "cost"))
comparisons = st.one_of(
    compared(keys.map("metrics.{}".format), *of_number),
    compared(keys.map("lowest.{}".format), *of_number),
    compared(keys.map("highest.{}".format), *of_number),
    compared(keys.map("params.{}".format), *of_text, *of_number, several(st.one_of(quoted, number))),
    compared(keys.map("tags.{}".format), *of_text),
    compared(texts, *of_text),
    compared(moments, *of_number, one(ordering, st.sampled_from(("1000000", "1002500", "2", ".5", "600")))),
    st.builds("state {} '{}'".format, equality, st.sampled_from((*STATES, "FINISHED"))),
    st.builds("archived {} {}".format, equality, st.sampled_from(("true", "false"))),
)
filters = st.recursive(
    comparisons,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(("and", "or")), inner),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=filters)
def test_the_database_finds_what_the_grammar_means(population: dict[str, RunValues], text: str) -> None:
    parsed = parse_filter(text)
    expected = {run_id for run_id, values in population.items() if matches(parsed, values)}
    found = queries.matching_runs(SYSTEM, filter=text, view="all").values_list("id", flat=True)
    assert set(found) == expected


ORDERS = (
    "metrics.loss",
    "lowest.loss DESC",
    "highest.`a b`",
    "metrics.`a b` DESC",
    "params.lr",
    "params.loss DESC",
    "tags.lr",
    "duration DESC",
    "mfu DESC",
    "cost",
    "archived",
)


def pages(actor: Actor, limit: int, **named: Any) -> Iterator[list[Run]]:
    cursor = ""
    while True:
        page = queries.search_runs(actor, limit=limit, cursor=cursor, **named)
        yield page.runs
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


@pytest.mark.parametrize("order", [(), *((order,) for order in ORDERS), ("state", "metrics.lr DESC")])
def test_pages_have_every_run_once_in_order(population: dict[str, RunValues], order: tuple[str, ...]) -> None:
    whole = [run.id for run in queries.search_runs(SYSTEM, order_by=order, view="all").runs]
    assert set(whole) == set(population)
    assert [run.id for page in pages(SYSTEM, 7, order_by=order, view="all") for run in page] == whole


def test_runs_that_lack_the_value_come_last_in_both_directions(population: dict[str, RunValues]) -> None:
    for direction in ("ASC", "DESC"):
        runs = queries.search_runs(SYSTEM, order_by=[f"metrics.loss {direction}"], view="all").runs
        losses = [population[run.id].metrics.get("loss", float("nan")) for run in runs]
        known = [loss for loss in losses if loss == loss]
        assert known == sorted(known, reverse=direction == "DESC")
        assert losses[: len(known)] == known


def test_runs_made_between_two_pages_move_nothing(cast: Cast, experiment: Experiment) -> None:
    made = [services.create_run(SYSTEM, experiment).id for _ in range(6)]
    Run.objects.filter(id__in=made).update(created_ms=5)
    first, *_ = pages(SYSTEM, 3)
    cursor = queries.search_runs(SYSTEM, limit=3).next_cursor or ""
    services.create_run(SYSTEM, experiment)
    rest = queries.search_runs(SYSTEM, limit=10, cursor=cursor).runs
    assert sorted(run.id for run in [*first, *rest]) == sorted(made)


@pytest.mark.parametrize("cursor", ["x", "é", "W10", "WyJhIiwxXQ", "bnVsbA"])
def test_a_broken_cursor_is_refused(experiment: Experiment, cursor: str) -> None:
    with pytest.raises(TrainmasterError, match="cursor is not valid"):
        queries.search_runs(SYSTEM, cursor=cursor)


def test_search_stays_within_the_teams_of_the_actor(
    cast: Cast, actor: Callable[[User], Actor], experiment: Experiment
) -> None:
    run = services.create_run(SYSTEM, experiment)
    alice, carol = actor(cast.owner), actor(cast.outsider)
    assert [row.id for row in queries.search_runs(alice, teams=["vision"]).runs] == [run.id]
    assert queries.search_runs(alice, teams=["nlp"]).runs == []
    for asked in ({}, {"teams": ["vision"]}, {"experiments": [experiment.pk]}):
        assert queries.search_runs(carol, **asked).runs == []


def test_views_tell_active_archived_and_deleted_runs(cast: Cast, experiment: Experiment) -> None:
    active, archived, deleted = (services.create_run(SYSTEM, experiment).id for _ in range(3))
    services.archive_runs(SYSTEM, [archived])
    services.delete_runs(SYSTEM, [deleted])

    def found(**named: Any) -> set[str]:
        return {run.id for run in queries.search_runs(SYSTEM, **named).runs}

    assert found() == {active}
    assert found(view="archived") == found(filter="archived = true") == {archived}
    assert found(view="deleted") == {deleted}
    assert found(view="all") == {active, archived, deleted}
    with pytest.raises(TrainmasterError, match="'gone' is none of active, archived, deleted, all"):
        found(view="gone")
