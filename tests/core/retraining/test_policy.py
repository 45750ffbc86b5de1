import pytest

from platform_core.jobs.reader import SpecError
from platform_core.retraining import policy as policies
from platform_core.units import HOUR_MS


def test_a_policy_survives_being_written() -> None:
    asked = policies.parse({
        "endpoint": "mlp", "drift": True, "decay_metric": "accuracy", "decay_bound": 0.9, "gpu_hours_a_week": 1.5,
        "share_percent": 2.5,
    })  # fmt: skip
    assert (asked.gpu_hours_a_week, asked.canary.share) == (1.5 * HOUR_MS, 250)
    assert policies.load(policies.as_mapping(asked)) == asked


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "enabled"),
        ({"drift": True}, "drift"),
        ({"decay_metric": "accuracy"}, "decay_metric"),
        ({"endpoint": "mlp", "decay_metric": "f1"}, "decay_metric"),
        ({"max_age_days": 3, "decay_suite": "held-out"}, "decay_suite"),
        ({"max_age_days": 3, "decay_bound": "much"}, "decay_bound"),
        ({"max_age_days": 3, "decay_bound": True}, "decay_bound"),
        ({"max_age_days": 3, "share_percent": 0}, "share_percent"),
        ({"max_age_days": 3, "max_age": 3}, "max_age"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_with_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as refused:
        policies.parse(fields)
    assert [problem.field for problem in refused.value.problems] == [field]
    assert refused.value.code == "policy_invalid"


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(SpecError, match="mapping of fields"):
        policies.parse([])


def test_not_a_number_is_worse_than_any_bound() -> None:
    asked = policies.parse({"max_age_days": 1, "decay_metric": "f1", "decay_suite": "s", "decay_bound": 0.5})
    assert asked.is_worse(float("nan"))
    assert not asked.is_worse(0.5)
