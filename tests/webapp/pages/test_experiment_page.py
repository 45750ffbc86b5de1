"""The table of an experiment: filtered, sorted, grouped, a stretch at a time; saved views; what people change."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import queries, saved_views, services
from webapp.experiments.models import Experiment, Run
from webapp.metrics import services as store
from webapp.metrics.values import Points
from webapp.pages.experiments import columns

Who = Callable[[User], Actor]
Browse = Callable[[User], Client]


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def experiment(alice: Actor) -> Experiment:
    return services.create_experiment(alice, "vision", "rates", description="# Why\n\n<b>bold</b>")


@pytest.fixture
def add(alice: Actor, experiment: Experiment) -> Callable[..., Run]:
    """A run with the loss it ends with; the least was 0.1 below that."""

    def make(name: str, loss: float | None = None, **parameters: Any) -> Run:
        run = services.create_run(alice, experiment, name=name, parameters=parameters)
        if loss is not None:
            store.append(run.id, [Points("val/loss", [1, 2], [loss - 0.1, loss], [1, 2])])
        return run

    return make


def shown(client: Client, experiment: Experiment, **query: Any) -> str:
    answer = client.get(f"/experiments/{experiment.pk}/", query)
    assert answer.status_code == 200, answer.content.decode()[:500]
    return str(answer.content.decode())


def order(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="name"><a href="[^"]*">([^<]*)</a>', page)


def test_the_best_value_differing_parameters_and_notes_are_shown_at_first(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5, lr=0.1, depth=4)
    add("fast", 0.7, lr=0.2, depth=4)
    page = shown(browser(cast.viewer), experiment)
    assert "<h2>Why</h2>" in page
    assert "<b>bold</b>" not in page
    assert "<b>0.4</b>" in page  # the lowest of val/loss
    assert re.search(r">lr</a>", page)
    assert not re.search(r">depth</a>", page)


def test_a_filter_chooses_runs_and_a_mistake_says_where(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5, lr=0.1)
    add("fast", 0.7, lr=0.2)
    client = browser(cast.viewer)
    assert order(shown(client, experiment, filter="metrics.val/loss < 0.6")) == ["slow"]
    assert order(shown(client, experiment, filter="params.lr = 0.2")) == ["fast"]
    answer = client.get(f"/experiments/{experiment.pk}/", {"filter": "params.lr ="})
    assert answer.status_code == 422
    assert "Not valid at character 12" in answer.content.decode()


def test_a_filter_without_runs_shows_no_charts_and_the_way_back(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5)
    client = browser(cast.viewer)
    assert 'id="charts"' in shown(client, experiment)
    page = shown(client, experiment, filter="name = 'nobody'")
    assert "No run matches this filter" in page
    assert "Clear the filter" in page
    assert 'id="charts"' not in page


def test_lists_leave_out_the_tags_that_the_client_of_mlflow_keeps_for_itself(
    add: Callable[..., Run], alice: Actor, experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    run = add("slow", 0.5)
    services.set_tags(alice, run, {"mlflow.user": "root", "stage": "prod"})
    client = browser(cast.viewer)
    for page in (shown(client, experiment), client.get("/experiments/").content.decode()):
        tags = re.findall(r'<span class="tag">([\w.]+)', page)
        assert tags == ["stage"]
    assert "mlflow.user" in client.get(f"/runs/{run.id}/").content.decode()


def test_headers_sort_on_the_server_by_what_they_show(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5, lr=0.3)
    add("fast", 0.7, lr=0.2)
    add("silent")
    client = browser(cast.viewer)
    assert order(shown(client, experiment, order="lowest.val/loss asc")) == ["slow", "fast", "silent"]
    page = shown(client, experiment, order="params.lr asc")
    assert order(page) == ["fast", "slow", "silent"]
    assert 'aria-sort="ascending"><a class="sort" href="?order=params.lr+desc">lr</a>' in page


def test_each_column_that_can_be_chosen_is_shown_and_its_header_sorts(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5, **{"odd name": 'a "b" `c`'})
    client = browser(cast.viewer)
    names = [column.name for column in columns.attributes()]
    names += [f"metrics.val/loss:{choice}" for choice in columns.CHOICES_OF_METRIC]
    names += ["params.odd name", 'tags.a "b"', "metrics.not there"]
    for name in names:
        order_by = columns.columns([name])[0].order
        assert order(shown(client, experiment, column=name, order=order_by)) == ["slow"], name


def test_groups_have_the_mean_and_the_range_of_their_runs(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    for seed, loss in enumerate((0.5, 0.7)):
        add(f"adam-{seed}", loss, optimizer="adam", lr=0.1)
    add("sgd", 0.9, optimizer="sgd'", lr=0.1)
    add("plain")
    client = browser(cast.viewer)
    query = {"group": "params.optimizer", "column": ["metrics.val/loss:last", "params.lr", "cost", "state"]}
    page = shown(client, experiment, **query)
    assert '<td class="n">0.6<div class="under">0.5 – 0.7</div></td>' in page
    for found in re.findall(r'<th scope="row"><a href="([^"]*)">', page):
        of_group = client.get(f"/experiments/{experiment.pk}/{found.replace('&amp;', '&')}").content.decode()
        assert order(of_group), found
    by_loss = shown(client, experiment, **query, order="metrics.val/loss desc")
    assert by_loss.index(">sgd") < by_loss.index(">adam")


def test_all_runs_come_a_stretch_at_a_time_and_once(
    alice: Actor, experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    for number in range(120):
        services.create_run(alice, experiment, name=f"run {number}")
    client = browser(cast.viewer)
    page = shown(client, experiment)
    assert 'aria-rowcount="121"' in page
    names = order(page)
    while following := re.search(r'<a href="(\?[^"]*cursor=[^"]*)"', page):
        address = following[1].replace("&amp;", "&")
        page = client.get(
            f"/experiments/{experiment.pk}/{address}", headers={"HX-Request": "true"}
        ).content.decode()
        assert "<html" not in page
        names += order(page)
    assert sorted(names) == sorted(f"run {number}" for number in range(120))
    assert 'aria-rowindex="121"' in page


def test_more_runs_cost_the_table_no_more_statements(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    client = browser(cast.viewer)
    query = {"column": ["cost", "owner", "metrics.val/loss", "params.lr", "tags.stage"]}

    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            shown(client, experiment, **query)
        return len(asked)

    add("first", 0.5)
    before = statements()
    for number in range(12):
        add(f"run {number}", 0.5)
    assert statements() == before


def test_charts_are_of_the_selected_runs(
    add: Callable[..., Run], experiment: Experiment, alice: Actor, cast: Cast, browser: Browse
) -> None:
    slow, fast = add("slow", 0.5), add("fast", 0.7)
    elsewhere = services.create_run(alice, services.create_experiment(alice, "vision", "other"))
    client = browser(cast.viewer)
    query = {"block": "charts", "runs": [fast.id, elsewhere.id]}
    block = client.get(
        f"/experiments/{experiment.pk}/", query, headers={"HX-Request": "true"}
    ).content.decode()
    assert "1 selected run" in block
    assert fast.id in block
    assert slow.id not in block
    assert elsewhere.id not in block


def test_archived_and_deleted_runs_have_their_views(
    add: Callable[..., Run], experiment: Experiment, alice: Actor, cast: Cast, browser: Browse
) -> None:
    for name, verb in (("old", services.archive_runs), ("gone", services.delete_runs)):
        verb(alice, [add(name).id])
    add("new")
    client = browser(cast.viewer)
    views = {
        view: order(shown(client, experiment, view=view)) for view in ("active", "archived", "deleted", "all")
    }
    assert views == {
        "active": ["new"],
        "archived": ["old"],
        "deleted": ["gone"],
        "all": ["new", "gone", "old"],
    }


def test_names_are_offered_as_the_filter_takes_them(
    add: Callable[..., Run], experiment: Experiment, alice: Actor, cast: Cast, browser: Browse
) -> None:
    services.set_tags(alice, add("slow", 0.5, **{"odd name": 1}), {"stage": "prod"})
    names = browser(cast.viewer).get(f"/experiments/{experiment.pk}/names/").json()["names"]
    assert {"state", "metrics.val/loss", "lowest.val/loss", 'params."odd name"', "tags.stage"} <= set(names)
    for name in names:
        queries.matching_runs(alice, filter=f"{name} IS NOT NULL").count()
    chooser = browser(cast.viewer).get(
        f"/experiments/{experiment.pk}/?block=chooser", headers={"HX-Request": "true"}
    )
    assert 'value="metrics.val/loss:min"' in chooser.content.decode()


def test_a_view_is_saved_shared_and_deleted(
    experiment: Experiment, cast: Cast, browser: Browse, actor: Who
) -> None:
    bob, vera = browser(cast.member), browser(cast.viewer)
    form = {"name": "best", "query": "order=lowest.val%2Floss+asc", "shared": "true"}
    answer = bob.post(f"/experiments/{experiment.pk}/views/", form)
    assert answer["Location"] == f"/experiments/{experiment.pk}/?order=lowest.val%2Floss+asc"
    vera.post(f"/experiments/{experiment.pk}/views/", {"name": "mine", "query": "view=all"})
    assert '<a href="?order=lowest.val%2Floss+asc">best</a>' in shown(vera, experiment)
    assert ">mine</a>" not in shown(bob, experiment)
    assert vera.post(f"/experiments/{experiment.pk}/views/", {**form, "name": "public"}).status_code == 403
    (best,) = saved_views.views_of(actor(cast.member), experiment)
    with pytest.raises(TrainmasterError):
        saved_views.delete_view(actor(cast.viewer), experiment, best.pk)
    bob.post(f"/experiments/{experiment.pk}/views/{best.pk}/delete/")
    assert saved_views.views_of(actor(cast.member), experiment) == []


def test_an_experiment_is_created_renamed_archived_deleted_and_restored(
    cast: Cast, browser: Browse, alice: Actor
) -> None:
    client = browser(cast.owner)
    made = client.post("/experiments/new/", {"team": "vision", "name": "widths", "description": "x"})
    address = made["Location"]
    client.post(f"{address}edit/", {"name": "depths", "description": "*why*"})
    page = client.get(address).content.decode()
    assert "<h1>depths</h1>" in page
    assert "<em>why</em>" in page
    client.post(f"{address}archive/")
    assert ">depths</a>" not in client.get("/experiments/").content.decode()
    assert ">depths</a>" in client.get("/experiments/?view=archived").content.decode()
    client.post(f"{address}restore/")
    client.post(f"{address}delete/")
    assert "This experiment was deleted" in client.get(address).content.decode()
    assert ">depths</a>" in client.get("/experiments/?view=deleted").content.decode()
    client.post(f"{address}restore/")
    assert ">depths</a>" in client.get("/experiments/").content.decode()
    taken = client.post("/experiments/new/", {"team": "vision", "name": "depths"}, follow=True)
    assert "exists already" in taken.content.decode()


def test_the_columns_can_be_chosen_beside_a_filter_that_is_wrong(
    add: Callable[..., Run], experiment: Experiment, cast: Cast, browser: Browse
) -> None:
    add("slow", 0.5, lr=0.1)
    query = {"filter": "metrics.loss <", "block": "chooser"}
    chooser = browser(cast.viewer).get(
        f"/experiments/{experiment.pk}/", query, headers={"HX-Request": "true"}
    )
    assert chooser.status_code == 200
    assert "val/loss" in chooser.content.decode()
