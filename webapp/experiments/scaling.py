"""The planner's curve over GPUs, planned in as many requests as it takes: one point may need seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

from django.core.cache import cache

from platform_core.parallelism.advice import ScalePoint, scale_counts, scale_point, with_efficiency
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.request import PlanRequest

SECONDS = 5.0  # after which a request plans no further point
KEPT_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    points: Sequence[ScalePoint]
    left: int  # numbers of GPUs that are not planned yet


def scaling(request: PlanRequest, calibration: Calibration) -> ScalingCurve:
    """The curve as far as earlier calls have planned it, and at least one point further."""
    counts = scale_counts(request)
    known = cache.get_many([_key(request, calibration, gpus) for gpus in counts])
    begun, planned = monotonic(), 0
    points: list[ScalePoint] = []
    for place, gpus in enumerate(counts):
        key = _key(request, calibration, gpus)
        if key not in known:
            if planned and monotonic() - begun > SECONDS:
                return ScalingCurve(with_efficiency(points), len(counts) - place)
            known[key] = scale_point(request, gpus, calibration)
            cache.set(key, known[key], KEPT_SECONDS)
            planned += 1
        if known[key] is not None:
            points.append(known[key])
    return ScalingCurve(with_efficiency(points), 0)


def _key(request: PlanRequest, calibration: Calibration, gpus: int) -> str:
    return "scaling:" + sha256(repr((request, calibration, gpus)).encode()).hexdigest()[:32]
