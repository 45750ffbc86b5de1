"""The filter grammar: what it means, and where it says that a filter is wrong."""

from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from platform_core.experiments.search import (
    AllOf,
    AnyOf,
    Comparison,
    Field,
    FieldKind,
    Operator,
    OrderKey,
    RunValues,
    matches,
    parse_filter,
    parse_order,
)

RUN = RunValues(
    metrics={"train/loss": 0.4, "val loss": 0.6, "broken": float("nan")},
    parameters={"lr": 0.001, "depth": 3, "optimizer": "adamw", "text_rate": "1e-3", "amp": True, "layers": [1, 2]},
    tags={"stage": "prod", "mlflow.runName": "it's"},
    attributes={
        "name": "baseline 3", "run_id": "a" * 32, "state": "running", "owner": "alice", "user": "ada", "group": "",
        "start_time": 1_767_225_600_000, "duration": 90.0, "archived": False,
    },
    datasets=[{"name": "stdlib", "digest": "abc"}, {"name": "books"}],
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        'metrics.train/loss < 0.5 and params.lr = "0.001" and tags.stage = "prod" and state = "running"',
        'metrics.`val loss` >= .6 AND metric."val loss" <= 6e-1',
        "params.lr < 0.01 and params.text_rate < 0.01 and parameters.lr = '1e-3'",
        "params.amp = 'True' and params.depth IN ('3', '4') and params.optimizer NOT IN ('sgd', 3)"
        " or params.optimizer NOT IN ('sgd')",
        "params.optimizer LIKE 'adam%' and name ILIKE 'BASE_INE%'",
        "tags.mlflow.runName = 'it''s' and tags.`mlflow.runName` != 'x'",
        "status = 'RUNNING' and attributes.status != 'FINISHED' and user_id = 'ada'",
        "start_time >= '2026-01-01' and start_time < '2026-01-01T01:00:00+00:00' and start_time = 1767225600000",
        "duration > 60 and archived = false and group IS NULL and end_time is null and tags.stage IS NOT NULL",
        "datasets.name = 'books' and dataset.digest LIKE 'a%' and datasets.context IS NULL",
        "params.layers IS NOT NULL and metrics.broken IS NOT NULL",
        "metrics.broken != 0 and metrics.broken NOT IN (1)",
        "(tags.stage = 'dev' or tags.stage = 'prod') and run_id IN ('b', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',)",
    ],
)
def test_a_run_matches(text: str) -> None:
    assert matches(parse_filter(text), RUN)


@pytest.mark.parametrize(
    "text",
    [
        "metrics.unknown != 1",
        "metrics.unknown < 1 or params.unknown != 'a' or tags.unknown NOT IN ('a')",
        "metrics.broken = 0 or metrics.broken > 0 or metrics.broken < 0 or metrics.broken IN (1)",
        "params.layers = '[1, 2]' or params.layers > 1 or params.amp > 0 or params.depth LIKE '3'",
        "group = '' or end_time > 0",
        "tags.stage = 'dev' or tags.stage = 'test' and name LIKE '%'",
    ],
)
def test_a_run_does_not_match(text: str) -> None:
    assert not matches(parse_filter(text), RUN)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("metrics.loss <", 15, "expected a value for metrics.loss: a number, or text in quotes, not the end"),
        ("metrics.loss < 'a'", 16, "metrics.loss is a number here; write it without quotes"),
        ("tags.stage = 3", 14, "tags.stage is text here; write '3' in quotes"),
        ("tags.stage < 'a'", 12, "tags.stage is text; compare it with"),
        ("metrics.loss LIKE 'a'", 14, "metrics.loss is a number; LIKE compares text"),
        ("state = 'gone'", 9, "'gone' is no state of a run"),
        ("colour = 'red'", 1, "'colour' is no field of a run"),
        ("metric.loss = 1 metric.loss = 2", 17, "expected AND, OR or the end, not 'metric.loss'"),
        ("(name = 'a'", 1, "this parenthesis is not closed"),
        ("name = 'a", 8, "the quote ' is not closed"),
        ("name == 'a'", 6, "write = instead of =="),
        ("name = 5min", 8, "'5min' is not a number; put a text into quotes"),
        ("runs.x = 1", 1, "'runs' is no kind of field"),
        ("tags. = 'a'", 1, "'tags.' lacks a name after the dot"),
        ("start_time > 'soon'", 14, "start_time is a time such as"),
        ("archived = 'yes'", 12, "archived is true or false"),
        ("name IN 'a'", 9, "IN takes a list"),
        ("name = 'a\0b'", 10, "NUL"),
        ("metrics.x < 1e999", 13, "beyond the numbers of 64 bits"),
        ("name IS 3", 6, "expected IS NULL or IS NOT NULL"),
        ("datasets.size = 'a'", 1, "datasets have no 'size'"),
        ("(" * 30 + "name = 'a'" + ")" * 30, 21, "at most 20 deep"),
        (" and ".join(["name = 'a'"] * 101), 1501, "at most 100 comparisons"),
        ("name = 'a' and ;", 16, "';' begins no name, value or operator"),
    ],
)
def test_a_wrong_filter_gets_its_position_and_the_reason(text: str, position: int, reason: str) -> None:
    with pytest.raises(TrainmasterError) as caught:
        parse_filter(text)
    assert caught.value.code == "filter_invalid"
    assert caught.value.numbers["position"] == position
    assert reason in caught.value.sentence


def test_and_binds_closer_than_or() -> None:
    def name(value: str) -> Comparison:
        return Comparison(Field(FieldKind.ATTRIBUTE, "name"), Operator.EQUAL, (value,))

    parsed = parse_filter("name = 'a' or name = 'b' and run_name = 'c'")
    assert parsed == AnyOf((name("a"), AllOf((name("b"), name("c")))))


def test_an_order_has_fields_with_directions() -> None:
    parsed = parse_order("metrics.`val loss`, start_time DESC, params.lr asc")
    assert parsed == (
        OrderKey(Field(FieldKind.METRIC, "val loss")),
        OrderKey(Field(FieldKind.ATTRIBUTE, "start_time"), descending=True),
        OrderKey(Field(FieldKind.PARAMETER, "lr")),
    )
    assert parse_order("") == ()
    for text, position in (("name down", 6), ("metrics.a, , b", 12), (", ".join(["name"] * 9), 49)):
        with pytest.raises(TrainmasterError) as caught:
            parse_order(text)
        assert caught.value.numbers["position"] == position, text


@pytest.mark.parametrize("value", ["3", 3, 3.0])
def test_numbers_and_texts_of_numbers_meet(value: Any) -> None:
    run = RunValues(parameters={"depth": value})
    assert matches(parse_filter("params.depth = 3 and params.depth >= 3 and params.depth IN (1, 3)"), run)
    assert matches(parse_filter("params.depth = '3'"), run)
