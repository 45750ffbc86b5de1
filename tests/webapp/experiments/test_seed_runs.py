"""The runs of the demonstration: made once, with groups of seeds and the metric names that everybody uses."""

from django.core.management import call_command

from webapp.accounts.permissions import SYSTEM
from webapp.experiments import queries


def test_the_demonstration_has_runs_in_groups_of_seeds() -> None:
    call_command("seed_demo", "--slots", "0")
    call_command("seed_runs")
    call_command("seed_runs")
    runs = queries.with_summaries(queries.search_runs(SYSTEM).runs)
    assert len(runs) == 12
    assert len({run.group for run in runs}) == 4
    assert {"train/loss", "val/loss", "val/accuracy", "perf/step_time"} == set(runs[0].summaries)
    assert sorted(run.state for run in runs) == ["failed", "running"] + ["succeeded"] * 10
    best = queries.search_runs(
        SYSTEM, filter="metrics.val/loss < 1", order_by=["metrics.val/loss"], limit=1
    ).runs
    assert best[0].group == "lr 0.03, depth 4"
