"""The small chart that the server draws."""

from webapp.pages.line_chart import ROWS, of_percentages


def test_without_values_there_is_no_chart() -> None:
    assert of_percentages([], {"held": []}) is None


def test_a_line_runs_from_the_first_moment_to_the_last_and_from_all_at_the_top_to_none_at_the_bottom() -> (
    None
):
    chart = of_percentages([1_000, 2_000, 3_000], {"held": [0.0, 50.0, 100.0], "busy": [0.0, 0.0, 25.0]})
    assert chart is not None
    assert [line.points for line in chart.lines] == [
        "0,100.0 500,50.0 1000,0.0",
        "0,100.0 500,100.0 1000,75.0",
    ]
    assert [(line.name, line.latest) for line in chart.lines] == [("held", 100.0), ("busy", 25.0)]
    assert chart.moments == (1_000, 2_000, 3_000)


def test_one_sample_is_the_latest_at_the_right_edge() -> None:
    chart = of_percentages([5_000], {"held": [40.0]})
    assert chart is not None
    assert chart.lines[0].points == "1000,60.0"


def test_the_table_begins_with_the_latest_and_stays_short() -> None:
    times = list(range(0, 200_000, 1_000))
    chart = of_percentages(times, {"held": [float(number % 100) for number in range(200)]})
    assert chart is not None
    assert chart.rows[0] == (199_000, (99.0,))
    assert len(chart.rows) <= ROWS
