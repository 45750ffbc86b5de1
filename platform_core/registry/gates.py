"""The gate of a model: what a version must have proven before it is promoted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from platform_core.registry.estimates import Difference, Estimate
from platform_core.registry.stages import Stage
from platform_core.units import plural


class Direction(StrEnum):
    HIGHER = "higher"  # is better
    LOWER = "lower"


class Measurer(StrEnum):
    """Who may have measured what counts."""

    ANYONE = "anyone"
    SERVER = "server"  # in a job of its own


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound of a metric over all samples; with `every_slice` in each slice as well."""

    suite: str
    metric: str
    direction: Direction
    bound: float
    every_slice: bool = False


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse than production a metric may be, in its own unit, at the unlucky end of the interval."""

    suite: str
    metric: str
    direction: Direction
    worse_by: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """The default lets everything through, as a model without a policy does."""

    thresholds: tuple[Threshold, ...] = ()
    margins: tuple[Margin, ...] = ()
    self_validation: bool = False
    uncontaminated: bool = False  # no file of the evaluation data among the training data
    measured_by: Measurer = Measurer.ANYONE
    serving_target: str = ""  # that one of its exports has to serve
    approvals: int = 0  # for production, by others than who registered the version
    approvers: frozenset[str] = frozenset({"lead"})  # roles

    @property
    def suites(self) -> frozenset[str]:
        return frozenset([rule.suite for rule in self.thresholds] + [rule.suite for rule in self.margins])


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The newest finished evaluation of a version by one suite."""

    suite: str
    metrics: Mapping[str, Estimate]
    slices: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)  # slice → metric
    against_production: Mapping[str, Difference] = field(
        default_factory=dict
    )  # metric → version less production
    by_server: bool = False
    contaminated: int | None = None  # files that were trained on; None: it could not be found out
    contamination_problem: str = ""  # why not


@dataclass(frozen=True, slots=True)
class Approval:
    username: str
    role: str
    current: bool = True  # it was given for the results that there are now


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a version when somebody asks for its promotion."""

    evaluations: Mapping[str, Evaluation]  # by suite
    registered_by: str
    approvals: tuple[Approval, ...] = ()
    self_validated: bool | None = None  # None: not tried
    self_validation_problem: str = ""
    export_refusals: tuple[str, ...] = ("it has no export",)  # why none serves the target of the policy
    has_production: bool = False  # another version of the model is in production


@dataclass(frozen=True, slots=True)
class Admitted:
    pass


@dataclass(frozen=True, slots=True)
class Refused:
    """Every reason, not the first one: each is a sentence with its numbers."""

    reasons: tuple[str, ...]


def admit(target: Stage, policy: Policy, evidence: Evidence) -> Admitted | Refused:
    """Whether a version may enter `target`. Approvals are asked for production alone."""
    reasons = [
        *_validation(policy, evidence),
        *_thresholds(policy, evidence),
        *_margins(policy, evidence),
        *_exports(policy, evidence),
        *(_approvals(policy, evidence) if target is Stage.PRODUCTION else ()),
    ]
    return Refused(tuple(dict.fromkeys(reasons))) if reasons else Admitted()


def _validation(policy: Policy, evidence: Evidence) -> Iterator[str]:
    if policy.self_validation and not evidence.self_validated:
        why = evidence.self_validation_problem or "it has not run"
        yield f"self-validation has not passed: {why}"
    for suite in sorted(policy.suites) if policy.uncontaminated else ():
        evaluation = evidence.evaluations.get(suite)
        if evaluation is not None and evaluation.contaminated is None:
            why = evaluation.contamination_problem or "nobody has looked"
            yield f"the evaluation data of {suite} was not compared with the training data: {why}"
        elif evaluation is not None and evaluation.contaminated:
            files = plural(evaluation.contaminated, "file")
            yield f"its training data has {files} of the evaluation data of {suite}"


def _found(policy: Policy, evidence: Evidence, suite: str) -> Evaluation | str:
    """The evaluation of a suite that counts, or why there is none."""
    evaluation = evidence.evaluations.get(suite)
    if evaluation is None:
        return f"{suite} has not evaluated this version"
    if policy.measured_by is Measurer.SERVER and not evaluation.by_server:
        return (
            f"the results of {suite} were sent by a person; they count only when the server has measured them"
        )
    return evaluation


def _thresholds(policy: Policy, evidence: Evidence) -> Iterator[str]:
    for rule in policy.thresholds:
        evaluation = _found(policy, evidence, rule.suite)
        if isinstance(evaluation, str):
            yield evaluation
            continue
        places = {"": evaluation.metrics}
        if rule.every_slice:
            places |= dict(sorted(evaluation.slices.items()))
        for place, metrics in places.items():
            where = f"{rule.suite}: {rule.metric}{f' of {place}' if place else ''}"
            estimate = metrics.get(rule.metric)
            if estimate is None:
                yield f"{where} was not measured"
            elif not _within(estimate.mean, rule.bound, rule.direction):
                yield f"{where} is {estimate.mean:.4g}, {_asked(rule.direction)} {rule.bound:.4g}"


def _margins(policy: Policy, evidence: Evidence) -> Iterator[str]:
    if not evidence.has_production:
        return
    for rule in policy.margins:
        evaluation = _found(policy, evidence, rule.suite)
        if isinstance(evaluation, str):
            yield evaluation
            continue
        difference = evaluation.against_production.get(rule.metric)
        where = f"{rule.suite}: {rule.metric}"
        if difference is None:
            yield f"{where} was not compared with production: both need results of the same samples"
            continue
        worse = difference.low if rule.direction is Direction.HIGHER else -difference.high
        if not worse >= -rule.worse_by:  # also for NaN
            yield (
                f"{where} may be {-worse:.4g} worse than production ({difference.pairs:,} pairs, 95 % interval); "
                f"{rule.worse_by:.4g} is allowed"
            )


def _exports(policy: Policy, evidence: Evidence) -> Iterator[str]:
    for reason in evidence.export_refusals if policy.serving_target else ():
        yield f"no export serves {policy.serving_target}: {reason}"


def _approvals(policy: Policy, evidence: Evidence) -> Iterator[str]:
    """One's own version nobody approves alone, and an approval is of the results that its giver could see."""
    given = [
        approval
        for approval in evidence.approvals
        if approval.role in policy.approvers and approval.username != evidence.registered_by
    ]
    valid = {approval.username for approval in given if approval.current}
    if len(valid) < policy.approvals:
        roles = " or ".join(sorted(policy.approvers))
        past = sorted({approval.username for approval in given} - valid)
        yield (
            f"it has {len(valid)} of {policy.approvals} approvals by a {roles} other than "
            f"{evidence.registered_by}, who registered it"
            + (f"; the results have changed since {', '.join(past)} approved it" if past else "")
        )


def _within(value: float, bound: float, direction: Direction) -> bool:
    if math.isnan(value):
        return False
    return value >= bound if direction is Direction.HIGHER else value <= bound


def _asked(direction: Direction) -> str:
    return "at least" if direction is Direction.HIGHER else "at most"
