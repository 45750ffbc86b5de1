"""The comparison page: no metric is left out, each run is told apart, and the address restores what was chosen."""

import csv
import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from webapp.accounts.models import Role, User
from webapp.accounts.permissions import Actor
from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.metrics.values import Points

pytestmark = pytest.mark.usefixtures("cluster")

Browse = Callable[[User], Client]
MakeRun = Callable[..., Run]
COMPARE = "/experiments/compare/"


@pytest.fixture
def make_run(owner: User, team: str = "vision") -> MakeRun:
    actor = Actor(owner.username, {team: Role.MEMBER})

    def make(
        name: str,
        metrics: dict[str, Sequence[float]],
        lineage: dict[str, Any] | None = None,
        **parameters: Any,
    ) -> Run:
        experiment = services.ensure_experiment(actor, team, "curves")
        run = services.create_run(actor, experiment, name=name, parameters=parameters, started_ms=1_000_000)
        points = [
            Points(key, range(len(values)), values, [1_000_000 + 1_000 * step for step in range(len(values))])
            for key, values in metrics.items()
        ]
        services.log_points(actor, run, points)
        if lineage:
            Run.objects.filter(id=run.id).update(lineage=lineage)
        return run

    return make


def page_of(client: Client, runs: Sequence[Run], **query: str) -> Any:
    return client.get(COMPARE, {"runs": ",".join(run.id for run in runs), **query})


def text_of(page: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def names_of(page: Any) -> list[str]:
    return [line.label.name for line in page.context["ranking"]().lines]


EVERYBODYS = {
    "perf/step_time": [1.0],
    "train/loss": [1.0],
    "val/f1": [1.0],
    "val/loss": [1.0],
    "system/gpu0/power": [9.0],
}


def test_every_metric_has_a_chart_in_a_section_in_the_usual_order(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    page = page_of(browser(owner), [make_run("one", EVERYBODYS)])
    assert [chart["key"] for chart in page.context["pinned"]] == ["val/loss"]
    sections = {
        section.name: [chart["key"] for chart in section.charts] for section in page.context["sections"]
    }
    assert list(sections) == ["train", "val", "perf", "system"]
    drawn = re.findall(r'data-metric="([^"]+)"', page.content.decode())
    assert sorted(drawn) == sorted(EVERYBODYS)


def test_a_hundred_metrics_all_have_a_chart(make_run: MakeRun, owner: User, browser: Browse) -> None:
    page = page_of(browser(owner), [make_run("one", {f"layer/{number:02}": [1.0] for number in range(100)})])
    assert len(re.findall(r'data-metric="layer/', page.content.decode())) == 100


@pytest.mark.parametrize(
    ("query", "title", "order"),
    [
        ({}, "lowest val/loss", ["better", "noisy"]),
        ({"by": "last"}, "last val/loss", ["noisy", "better"]),
        ({"by": "max"}, "highest val/loss", ["better", "noisy"]),
        ({"metric": "speed"}, "last speed", ["better", "noisy"]),
        ({"by": "last", "better": "higher"}, "last val/loss", ["better", "noisy"]),
        (
            {"by": "smoothed", "smooth": "0.5"},
            "smoothed val/loss (exponential average, weight 0.5)",
            ["better", "noisy"],
        ),
    ],
)
def test_the_ranking_names_its_metric_and_the_value_that_was_chosen(
    make_run: MakeRun, owner: User, browser: Browse, query: dict[str, str], title: str, order: list[str]
) -> None:
    noisy = make_run("noisy", {"val/loss": [3.1, 2.9, 1.0]})
    better = make_run("better", {"val/loss": [3.0, 0.5, 1.1], "speed": [7.0]})
    page = page_of(browser(owner), [noisy, better], **query)
    assert f"Ranking by {title}" in text_of(page)
    assert names_of(page) == order


def test_the_last_value_of_a_metric_without_a_direction_has_no_best(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    runs = [make_run(str(value), {"temperature": [value]}) for value in (1.0, 2.0)]
    page = page_of(browser(owner), runs)
    assert not any(line.is_best for line in page.context["ranking"]().lines)


def test_runs_of_one_name_are_named_by_what_differs(make_run: MakeRun, owner: User, browser: Browse) -> None:
    runs = [make_run("clone", {"loss": [lr]}, lr=lr) for lr in (0.1, 0.2)]
    client = browser(owner)
    assert names_of(page_of(client, runs)) == ["clone · lr=0.1", "clone · lr=0.2"]
    ids = ",".join(run.id for run in runs)
    [chart] = client.get("/experiments/curves/", {"runs": ids, "key": "loss"}).json()["charts"]
    assert [series["name"] for series in chart["series"]] == ["clone · lr=0.1", "clone · lr=0.2"]
    assert len({series["style"]["colour"] for series in chart["series"]}) == 2


def test_seeds_are_one_line_with_their_median_and_one_band(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    runs = [make_run(f"s{seed}", {"loss": [9.0, float(seed)]}, lr=0.1, seed=seed) for seed in (1, 2, 6)]
    other = make_run("other", {"loss": [9.0, 5.0]}, lr=0.3, seed=1)
    client = browser(owner)
    page = page_of(client, [*runs, other], group="seeds")
    assert [(line.value, line.spread) for line in page.context["ranking"]().lines] == [
        (2.0, "1 to 6 of 3 runs"),
        (5.0, ""),
    ]
    [chart] = client.get(f"{page.context['curves']}&key=loss").json()["charts"]
    assert [(series["name"], series["y"], series["band"]) for series in chart["series"]] == [
        ("s1 · 3 seeds", [9.0, 2.0], True), ("other", [9.0, 5.0], False),
    ]  # fmt: skip
    assert (chart["series"][0]["low"], chart["series"][0]["high"]) == ([9.0, 1.0], [9.0, 6.0])


def test_the_runs_chosen_in_a_table_have_an_address_without_the_token_of_its_form(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    runs = [make_run(name, {"loss": [1.0]}).id for name in ("one", "two")]
    answer = browser(owner).post(COMPARE, {"runs": runs, "csrfmiddlewaretoken": "secret", "tag": ""})
    assert answer["Location"] == f"{COMPARE}?runs={runs[0]},{runs[1]}"


def test_the_address_restores_what_was_chosen(make_run: MakeRun, owner: User, browser: Browse) -> None:
    run = make_run("one", EVERYBODYS)
    query = {
        "x": "metric:train/loss", "kind": "gaussian", "smooth": "0.4", "scale": "log", "clip": "5", "hide": run.id,
        "pins": "val/f1,gone,train/loss", "wide": "none",
    }  # fmt: skip
    page = page_of(browser(owner), [run], **query)
    options = page.context["options"]
    assert options.drawing == {
        "kind": "gaussian",
        "strength": 0.4,
        "scale": "log",
        "xscale": "linear",
        "clip": 5,
    }
    assert (options.pins, options.wide, options.x) == (("val/f1", "train/loss"), (), "metric:train/loss")
    assert f'data-hidden="{run.id}"' in page.content.decode()


@pytest.mark.parametrize("query", [
    {"smooth": "x", "clip": "200", "kind": "no", "view": "no", "x": "metric:gone", "metric": "gone", "by": "no"},
    {"view": "parameters"}, {"view": "table", "all": "1"}, {"view": "code", "a": "gone", "b": "gone"},
])  # fmt: skip
def test_any_choice_opens_the_page(
    make_run: MakeRun, owner: User, browser: Browse, query: dict[str, str]
) -> None:
    runs = [make_run("one", {"loss": [1.0]}, lr=1.0), make_run("two", {}, lr=2.0)]
    for shown in (runs, runs[:1]):
        assert page_of(browser(owner), shown, **query).status_code == 200


def test_few_runs_have_no_importance_and_the_page_says_why(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    runs = [make_run(str(lr), {"loss": [lr]}, lr=lr) for lr in (0.1, 0.2)]
    ids = ",".join(run.id for run in runs)
    asked = {"runs": ids, "view": "parameters", "block": "importance"}
    block = browser(owner).get(COMPARE, asked, headers={"HX-Request": "true"})
    assert "2 runs have a value; an importance needs at least 8. Add runs." in block.content.decode()


def test_the_parameter_that_matters_comes_first_and_twice_the_same(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    runs = [
        make_run(str(n), {"loss": [n % 4 + 0.01 * n]}, lr=float(n % 4), width=n * 7 % 5) for n in range(16)
    ]
    client = browser(owner)
    first, second = (page_of(client, runs, view="parameters").context["importance"]() for _ in range(2))
    assert (first.bars[0].name, first) == ("lr", second)
    assert "16 runs" in first.sentence


def test_the_code_of_two_runs_stands_side_by_side(make_run: MakeRun, owner: User, browser: Browse) -> None:
    left = make_run(
        "left",
        {},
        {
            "git_commit": "aaa",
            "git_diff": "+lr = 1\n+same",
            "reported_packages": {"torch": "2.4", "numpy": "2"},
        },
    )
    right = make_run(
        "right",
        {},
        {
            "git_commit": "bbb",
            "git_diff": "+lr = 2\n+same",
            "reported_packages": {"torch": "2.5", "numpy": "2"},
            "dataset": "v2",
        },
    )
    page = page_of(browser(owner), [left, right], view="code")
    made = page.context["made_of"]()
    assert [(row.name, row.before, row.after) for row in made.facts] == [
        ("commit", "aaa", "bbb"),
        ("data set", None, "v2"),
    ]
    assert [(row.name, row.before, row.after) for row in made.packages] == [("torch", "2.4", "2.5")]
    assert [(line.left, line.right) for line in made.uncommitted] == [
        ("+lr = 1", "+lr = 2"),
        ("+same", "+same"),
    ]
    assert "Files can be compared where both runs were submitted with their code." in text_of(page)
    turned = page_of(browser(owner), [left, right], view="code", a=right.id, b=left.id)
    assert turned.context["pair"] == [right.id, left.id]


def test_the_table_is_also_a_csv(make_run: MakeRun, owner: User, browser: Browse) -> None:
    runs = [make_run(name, {"loss": [3.0, value]}, lr=value) for name, value in (("a", 1.0), ("b", 2.0))]
    answer = page_of(browser(owner), runs, format="csv")
    rows = {row[0]: row[1:] for row in csv.reader(StringIO(answer.content.decode()))}
    assert answer["Content-Type"].startswith("text/csv")
    assert (rows[""], rows["id"]) == (["a", "b"], [run.id for run in runs])
    assert (rows["lr"], rows["lowest loss"]) == (["1", "2"], ["1.0", "2.0"])


@pytest.mark.parametrize("query", [
    {"x": "sideways"}, {"columns": "0"}, {"columns": "1e9"}, {"from": "5", "to": "1"}, {"from": "nan", "to": "1"},
    {"from": "1"}, {"key": [f"k{number}" for number in range(13)]},
])  # fmt: skip
def test_a_question_about_curves_that_makes_no_sense_gets_a_sentence(
    make_run: MakeRun, owner: User, browser: Browse, query: dict[str, Any]
) -> None:
    run = make_run("one", {"loss": [1.0], **{f"k{number}": [1.0] for number in range(13)}})
    answer = browser(owner).get("/experiments/curves/", {"runs": run.id, "key": "loss", **query})
    assert answer.status_code == 400


def test_several_metrics_come_in_one_answer(make_run: MakeRun, owner: User, browser: Browse) -> None:
    run = make_run("one", {"a": [1.0], "b": [2.0]})
    charts = browser(owner).get("/experiments/curves/", {"runs": run.id, "key": ["b", "a"]}).json()["charts"]
    assert [(chart["key"], chart["series"][0]["y"]) for chart in charts] == [("b", [2.0]), ("a", [1.0])]


def test_time_zoom_is_of_the_time_since_each_run_began(
    make_run: MakeRun, owner: User, browser: Browse
) -> None:
    run = make_run("one", {"loss": [float(step) for step in range(100)]})
    asked = {"runs": run.id, "key": "loss", "x": "relative", "from": "10", "to": "12"}
    [chart] = browser(owner).get("/experiments/curves/", asked).json()["charts"]
    assert (chart["x"]["kind"], chart["series"][0]["x"], chart["series"][0]["y"]) == (
        "elapsed",
        [10, 11, 12],
        [10, 11, 12],
    )


def test_an_outsider_sees_no_run_of_the_comparison(
    make_run: MakeRun, outsider: User, browser: Browse
) -> None:
    run = make_run("one", {"loss": [1.0]})
    for query in ({}, {"view": "code"}, {"view": "parameters"}, {"format": "csv"}):
        assert page_of(browser(outsider), [run], **query).status_code == 404
    assert browser(outsider).get("/experiments/curves/", {"runs": run.id, "key": "loss"}).status_code == 404


def test_no_runs_give_a_page_that_asks_for_some(owner: User, browser: Callable[[User], Client]) -> None:
    page = browser(owner).get("/experiments/compare/")
    assert page.status_code == 200
    assert "No runs selected" in page.content.decode()
