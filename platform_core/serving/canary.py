"""Whether the new version of an endpoint takes over: judged by what its callers see, beside the version in use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.serving.latency import quantile_ms
from platform_core.serving.quality import LEAST, Quality
from platform_core.units import MINUTE_MS, SECOND_MS, format_duration_ms

Z = 2.58  # 99 % on each side: judged every few seconds, a looser bound would roll back by chance
LEAST_ERRORS = 3
NO_LABELS = Quality()


@dataclass(frozen=True, slots=True)
class CanaryPolicy:
    """`automatic` False: people promote and roll back; what is measured is shown all the same.

    `shadow`: the share is of copies of requests; callers are never answered by it.
    """

    share: int = 1_000  # of the requests, in ten-thousandths
    shadow: bool = False
    watch_ms: int = MINUTE_MS
    min_requests: int = 100
    max_error_increase: float = 0.01  # of the share of requests that fail
    max_latency_ratio: float = 1.5  # of the p99
    min_agreement: float = 0.0  # share of a shadow's answers that are alike
    max_accuracy_loss: float = 0.02  # by labels that came since it began
    same_outputs: bool = False  # outputs that are distributed otherwise roll it back
    start_ms: int = 10 * MINUTE_MS  # within which a replica of it must be ready
    automatic: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 10_000:
            raise ValueError(
                f"the share of a canary is {self.share / 100:g} %; more than 0 to 100 are possible"
            )
        if self.max_latency_ratio < 1:
            raise ValueError(f"max_latency_ratio is {self.max_latency_ratio}; it must be at least 1")
        if self.min_agreement and not self.shadow:
            raise ValueError(
                "min_agreement is for a shadow: a canary answers other requests than the version in use"
            )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one version answered since the canary began."""

    requests: int = 0
    errors: int = 0
    latencies: Sequence[int] = ()  # counts, as `latency` has them
    compared: int = 0  # answers of a shadow beside those of the version in use
    alike: int = 0
    difference: float = 0.0  # mean of their numbers

    @property
    def agreement(self) -> float | None:
        return self.alike / self.compared if self.compared else None

    @property
    def error_share(self) -> float:
        return self.errors / self.requests if self.requests else 0.0

    @property
    def p50_ms(self) -> float | None:
        return quantile_ms(self.latencies, 0.5)

    @property
    def p99_ms(self) -> float | None:
        return quantile_ms(self.latencies, 0.99)


@dataclass(frozen=True, slots=True)
class Watch:
    """A canary under way. `ready_ms`: when its first replica became ready; None: none did yet."""

    began_ms: int
    ready_ms: int | None
    stable: Traffic
    canary: Traffic
    stable_quality: Quality = NO_LABELS
    canary_quality: Quality = NO_LABELS
    moved: Sequence[str] = ()  # outputs that the canary distributes otherwise


@dataclass(frozen=True, slots=True)
class Continue:
    reason: str


@dataclass(frozen=True, slots=True)
class Promote:
    reason: str


@dataclass(frozen=True, slots=True)
class RollBack:
    reason: str


def judge(policy: CanaryPolicy, watch: Watch, now_ms: int) -> Continue | Promote | RollBack:
    """Rolls back as soon as it is clear that the canary is worse, promotes only after the whole watch."""
    if not policy.automatic:
        return Continue("it waits for somebody to promote it or roll it back")
    if watch.ready_ms is None:
        if now_ms - watch.began_ms > policy.start_ms:
            return RollBack(f"none of its replicas was ready after {format_duration_ms(policy.start_ms)}")
        return Continue("its replicas are starting")
    for trouble in (_errors, _latency, _accuracy, _agreement, _outputs):
        if found := trouble(policy, watch):
            return RollBack(found)
    left = watch.ready_ms + policy.watch_ms - now_ms
    if left > 0:
        return Continue(f"it is watched for another {format_duration_ms(max(left, SECOND_MS))}")
    if watch.canary.requests < policy.min_requests:
        return Continue(f"it answered {watch.canary.requests} of {policy.min_requests} requests")
    if policy.min_agreement and watch.canary.agreement is None:
        return Continue("none of its answers could be compared")
    if (watch.canary.agreement or 0.0) < policy.min_agreement:
        return RollBack(_disagreement(policy, watch.canary))
    return Promote(_summary(watch))


def _errors(policy: CanaryPolicy, watch: Watch) -> str:
    canary, stable = watch.canary, watch.stable
    if canary.errors < LEAST_ERRORS:
        return ""
    surely = _least_share(canary.errors, canary.requests)
    if surely <= stable.error_share + policy.max_error_increase:
        return ""
    return (
        f"{canary.errors} of its {canary.requests} requests failed, "
        f"{stable.errors} of {stable.requests} with the version before it"
    )


def _least_share(errors: int, requests: int) -> float:
    """The lower end of Wilson's interval."""
    share, z2 = errors / requests, Z * Z
    centre = share + z2 / (2 * requests)
    spread = Z * math.sqrt(share * (1 - share) / requests + z2 / (4 * requests * requests))
    return (centre - spread) / (1 + z2 / requests)


def _latency(policy: CanaryPolicy, watch: Watch) -> str:
    canary, stable = watch.canary, watch.stable
    slow, usual = canary.p99_ms, stable.p99_ms
    if slow is None or usual is None or min(canary.requests, stable.requests) < policy.min_requests:
        return ""
    if slow <= usual * policy.max_latency_ratio:
        return ""
    return f"its p99 is {slow:.1f} ms, {usual:.1f} ms with the version before it"


def _accuracy(policy: CanaryPolicy, watch: Watch) -> str:
    canary, stable = watch.canary_quality, watch.stable_quality
    if min(canary.labelled, stable.labelled) < LEAST or stable.accuracy is None:
        return ""
    if _greatest_share(canary.correct, canary.labelled) >= stable.accuracy - policy.max_accuracy_loss:
        return ""
    return (
        f"{canary.correct} of its {canary.labelled} labelled answers are right, "
        f"{stable.correct} of {stable.labelled} of the version before it"
    )


def _agreement(policy: CanaryPolicy, watch: Watch) -> str:
    """Surely too small: the rest of the watch would not save it."""
    canary = watch.canary
    if not canary.compared or _greatest_share(canary.alike, canary.compared) >= policy.min_agreement:
        return ""
    return _disagreement(policy, canary)


def _disagreement(policy: CanaryPolicy, canary: Traffic) -> str:
    return (
        f"{canary.alike} of its {canary.compared} answers are those of the version before it; "
        f"{100 * policy.min_agreement:g} % must be"
    )


def _outputs(policy: CanaryPolicy, watch: Watch) -> str:
    if not policy.same_outputs or not watch.moved:
        return ""
    return f"its answers are distributed otherwise: {', '.join(watch.moved)}"


def _greatest_share(part: int, whole: int) -> float:
    """The upper end of Wilson's interval."""
    return 1 - _least_share(whole - part, whole)


def _summary(watch: Watch) -> str:
    canary, p99 = watch.canary, watch.canary.p99_ms
    latency = "" if p99 is None else f", p99 {p99:.1f} ms"
    alike = f", {canary.alike} of {canary.compared} answers alike" if canary.compared else ""
    return f"{canary.errors} of its {canary.requests} requests failed{latency}{alike}"
