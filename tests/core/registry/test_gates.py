"""The gate of a model: each rule alone refuses with its numbers, and nothing unproven passes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.registry import policy_reader, results, stages
from platform_core.registry.estimates import Estimate, Sample, by_metric, by_slice, differences, estimate
from platform_core.registry.gates import (
    Admitted,
    Approval,
    Direction,
    Evaluation,
    Evidence,
    Margin,
    Measurer,
    Policy,
    Refused,
    Threshold,
    admit,
)
from platform_core.registry.stages import Stage

HIGHER, LOWER = Direction.HIGHER, Direction.LOWER


def samples(values: list[float], language: str = "de") -> list[Sample]:
    return [
        Sample(str(index), {"f1": value}, (f"language = {language}",)) for index, value in enumerate(values)
    ]


def evaluated(values: list[float], production: list[float] | None = None) -> Evaluation:
    rng = np.random.default_rng(1)
    version = samples(values)
    against = {} if production is None else differences(version, samples(production), rng)
    return Evaluation("quality", by_metric(version, rng), by_slice(version, rng), against)


def evidence(evaluation: Evaluation | None = None, **fields: Any) -> Evidence:
    evaluations = {} if evaluation is None else {evaluation.suite: evaluation}
    return Evidence(evaluations, registered_by="bob", **fields)


def reasons(policy: Policy, given: Evidence, target: Stage = Stage.PRODUCTION) -> tuple[str, ...]:
    decided = admit(target, policy, given)
    return decided.reasons if isinstance(decided, Refused) else ()


def test_a_model_without_a_policy_lets_everything_through() -> None:
    assert admit(Stage.PRODUCTION, Policy(), evidence()) == Admitted()


def test_a_version_that_was_not_evaluated_is_refused() -> None:
    policy = Policy(thresholds=(Threshold("quality", "f1", HIGHER, 0.5),))
    assert reasons(policy, evidence()) == ("quality has not evaluated this version",)


def test_a_threshold_names_the_value_and_the_bound() -> None:
    policy = Policy(thresholds=(Threshold("quality", "f1", HIGHER, 0.9),))
    assert reasons(policy, evidence(evaluated([0.5] * 40))) == ("quality: f1 is 0.5, at least 0.9",)
    assert reasons(policy, evidence(evaluated([0.95] * 40))) == ()


def test_a_weak_slice_is_refused_although_the_mean_is_good() -> None:
    rng = np.random.default_rng(1)
    mixed = samples([0.95] * 90) + [replace(s, id=f"x{s.id}") for s in samples([0.2] * 10, "fi")]
    evaluation = Evaluation("quality", by_metric(mixed, rng), by_slice(mixed, rng))
    everywhere = Policy(thresholds=(Threshold("quality", "f1", HIGHER, 0.8, every_slice=True),))
    assert reasons(everywhere, evidence(evaluation)) == ("quality: f1 of language = fi is 0.2, at least 0.8",)
    assert reasons(Policy(thresholds=(Threshold("quality", "f1", HIGHER, 0.8),)), evidence(evaluation)) == ()


def test_a_version_that_may_be_worse_than_production_is_refused() -> None:
    chance = np.random.default_rng(3)
    before = chance.normal(0.8, 0.1, 200)
    worse = evaluated((before - 0.05 + chance.normal(0, 0.02, 200)).tolist(), before.tolist())
    policy = Policy(margins=(Margin("quality", "f1", HIGHER, 0.02),))
    [reason] = reasons(policy, evidence(worse, has_production=True))
    assert "worse than production" in reason
    assert "200 pairs" in reason
    assert (
        reasons(policy, evidence(worse)) == ()
    )  # the first version of a model has nothing to be compared with
    equal = evaluated((before + chance.normal(0, 0.02, 200)).tolist(), before.tolist())
    assert reasons(policy, evidence(equal, has_production=True)) == ()


def test_a_metric_where_lower_is_better_is_compared_the_other_way() -> None:
    policy = Policy(margins=(Margin("quality", "f1", LOWER, 0.02),))
    better = evaluated([0.1] * 50, [0.5] * 50)
    assert reasons(policy, evidence(better, has_production=True)) == ()
    worse = evaluated([0.5] * 50, [0.1] * 50)
    assert reasons(policy, evidence(worse, has_production=True))


def test_a_metric_that_is_not_a_number_passes_no_rule() -> None:
    for rule in (Threshold("quality", "f1", HIGHER, -1e9), Threshold("quality", "f1", LOWER, 1e9)):
        assert reasons(Policy(thresholds=(rule,)), evidence(evaluated([0.5, math.nan])))
    nothing = Policy(margins=(Margin("quality", "f1", HIGHER, 1e9),))
    assert reasons(nothing, evidence(evaluated([math.nan], [0.5]), has_production=True))


def test_nobody_approves_a_version_of_their_own() -> None:
    policy = Policy(approvals=1)
    own = evidence(approvals=(Approval("bob", "lead"),))
    assert "0 of 1 approvals by a lead other than bob" in reasons(policy, own)[0]
    twice = evidence(approvals=(Approval("eve", "lead"), Approval("eve", "lead")))
    assert reasons(replace(policy, approvals=2), twice)
    assert reasons(policy, evidence(approvals=(Approval("eve", "member"),)))
    assert reasons(policy, evidence(approvals=(Approval("eve", "lead"),))) == ()
    assert reasons(policy, evidence(), Stage.STAGING) == ()


def test_contamination_and_failed_self_validation_are_refused() -> None:
    policy = Policy(
        thresholds=(Threshold("quality", "f1", HIGHER, 0.1),), self_validation=True, uncontaminated=True
    )
    found = reasons(
        policy,
        evidence(
            replace(evaluated([0.5]), contaminated=3),
            self_validated=False,
            self_validation_problem="w has NaN",
        ),
    )
    assert found == (
        "self-validation has not passed: w has NaN",
        "its training data has 3 files of the evaluation data of quality",
    )


@given(st.sampled_from(list(Stage)), st.sampled_from(list(Stage)))
def test_a_recalled_version_must_become_a_candidate_again(before: Stage, target: Stage) -> None:
    if before is Stage.RECALLED and target not in (Stage.RECALLED, Stage.CANDIDATE):
        with pytest.raises(IllegalTransition, match="recalled"):
            stages.move("bytelm v1", before, target)
    else:
        assert stages.move("bytelm v1", before, target) is target


def test_only_going_down_among_proven_stages_needs_no_gate() -> None:
    free = {(b, t) for b in Stage for t in stages.GATED if not stages.needs_gate(b, t)}
    assert free == {
        (Stage.VALIDATED, Stage.VALIDATED),
        (Stage.STAGING, Stage.VALIDATED), (Stage.STAGING, Stage.STAGING),
        (Stage.PRODUCTION, Stage.VALIDATED), (Stage.PRODUCTION, Stage.STAGING), (Stage.PRODUCTION, Stage.PRODUCTION),
    }  # fmt: skip


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(100):
        found = estimate(rng.normal(2.0, 1.0, 60).tolist(), rng)
        held += found.low <= 2.0 <= found.high
    assert 86 <= held <= 100  # 95 expected, the deviation is 2.2


def test_one_value_has_no_width_and_no_value_no_interval() -> None:
    rng = np.random.default_rng(1)
    assert estimate([0.5], rng) == Estimate(0.5, 0.5, 0.5, 1)
    assert math.isnan(estimate([], rng).mean)


SUBJECT = st.just("q"), st.just("m"), st.sampled_from(Direction)
POLICIES = st.builds(
    Policy,
    thresholds=st.lists(st.builds(Threshold, *SUBJECT, st.floats(-9, 9), st.booleans())).map(tuple),
    margins=st.lists(st.builds(Margin, *SUBJECT, st.floats(0, 9))).map(tuple),
    self_validation=st.booleans(),
    uncontaminated=st.booleans(),
    measured_by=st.sampled_from(Measurer),
    approvals=st.integers(0, 10),
    approvers=st.sets(st.sampled_from(["lead", "member"]), min_size=1).map(frozenset),
)  # fmt: skip


@given(POLICIES)
def test_a_policy_is_read_as_it_was_written(policy: Policy) -> None:
    assert policy_reader.read(json.loads(json.dumps(policy_reader.as_mapping(policy)))) == policy


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"treshold": []}, "'treshold' is none of"),
        ({"approvals": -1}, "approvals '-1'"),
        ({"approvers": ["viewer"]}, "a list of lead and member"),
        (
            {"thresholds": [{"suite": "q", "metric": "m", "bound": float("inf")}]},
            "bound 'inf' is not valid: it must be a finite number",
        ),
        ({"margins": [{"suite": "q", "metric": "m", "worse_by": -1}]}, "0 or more"),
        ({"thresholds": [{"suite": "q", "metric": "m", "direction": "up", "bound": 1}]}, "higher or lower"),
        ({"thresholds": 3}, "a list"),
        ({"self_validation": "yes"}, "true or false"),
    ],
)
def test_a_policy_that_is_not_valid_is_refused_with_the_value(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TrainmasterError, match=sentence):
        policy_reader.read(fields)


def test_results_are_read_a_line_a_sample() -> None:
    lines = [
        '{"id": 1, "metrics": {"f1": 0.5}, "slices": {"language": "de"}}', "",
        '{"id": "b", "metrics": {"f1": 1}}',
    ]  # fmt: skip
    assert results.read(lines) == (
        Sample("1", {"f1": 0.5}, ("language = de",)),
        Sample("b", {"f1": 1.0}),
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "no samples"),
        (["{"], "line 1 of the evaluation is not valid: it is not JSON"),
        (["[]"], "not an object"),
        (['{"metrics": {"a": 1}}'], "id must be"),
        (['{"id": "a", "metrics": {}}'], "1 to 64 numbers"),
        (['{"id": "a", "metrics": {"f1": "high"}}'], "'high'"),
        (['{"id": "a", "metrics": {"f1": 1}, "slices": 4}'], "at most 16 texts"),
        (
            ['{"id": "a", "metrics": {"f1": 1}}', '{"id": "a", "metrics": {"f1": 1}}'],
            "line 2 .*was there before",
        ),
    ],
)
def test_results_that_are_not_valid_are_refused_with_the_line(lines: list[str], sentence: str) -> None:
    with pytest.raises(TrainmasterError, match=sentence):
        results.read(lines)
