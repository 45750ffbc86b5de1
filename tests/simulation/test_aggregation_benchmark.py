"""The comparison of ways of aggregation: its verdict, and its picture."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.aggregation import verdict
from benchmarks.aggregation_figure import losses

ROWS = {
    "all-reduce (gloo)": [[0, 0.0, 2.3], [32, 1.0, 2.2], [64, 2.0, 2.1]],
    "asynchronous": [[0, 0.0, 2.3], [32, 0.5, 2.25], [64, 1.0, 2.15]],
    "synchronous": [[0, 0.0, 2.3], [32, 2.0, 2.2], [64, 4.0, 2.1]],
}
LINES = [{"way": way, "loss_by_samples_and_seconds": rows} for way, rows in ROWS.items()]


def test_the_verdict_is_the_way_that_is_first_at_the_loss_that_all_reach() -> None:
    found = verdict(LINES)
    assert found["verdict"] == "asynchronous"
    assert found["loss_reached_by_all"] == 2.15
    assert found["seconds_to_it"] == {"asynchronous": 1.0, "all-reduce (gloo)": 2.0, "synchronous": 4.0}
    assert found["times_faster_than_all_reduce"] == 2.0


def test_nothing_is_compared_with_an_all_reduce_that_failed() -> None:
    found = verdict(LINES[1:])
    assert found["verdict"] == "asynchronous"
    assert found["times_faster_than_all_reduce"] is None


def test_the_picture_has_a_line_of_each_way_in_both_panels() -> None:
    picture = ElementTree.fromstring(losses(ROWS))
    names = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 2 * len(ROWS)
    assert {"Loss against samples", "Loss against seconds", *ROWS} <= set(names)
