"""What callers of endpoints see, from the counts of the routers: rates, latencies, errors, and their charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.serving.canary import Traffic
from platform_core.serving.latency import added, quantile_ms
from platform_core.units import MINUTE_MS, SECOND_MS
from webapp.serving.models import TrafficSample
from webapp.serving.values import BUCKET_MS

RATE_MS = MINUTE_MS
CHART_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one endpoint, or one version of it."""

    requests: int
    errors: int
    seconds: float  # the time that the requests came in
    p50_ms: float | None
    p99_ms: float | None

    @property
    def rate(self) -> str:
        return f"{self.requests / self.seconds:.3g}" if self.requests else "0"

    @property
    def p50(self) -> str:
        return _milliseconds(self.p50_ms)

    @property
    def p99(self) -> str:
        return _milliseconds(self.p99_ms)

    @property
    def error_share(self) -> str:
        if not self.requests:
            return "–"
        return f"{100 * self.errors / self.requests:.2g} %" if self.errors else "0 %"


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms" if value < SECOND_MS else f"{value / SECOND_MS:.3g} s"


def whole_until(now_ms: int) -> int:
    """The end of the last ten seconds that are over."""
    return now_ms - now_ms % BUCKET_MS


def seen(samples: Iterable[TrafficSample], span_ms: int) -> Seen:
    samples = list(samples)
    counts = added(one.latencies for one in samples)
    return Seen(
        sum(one.requests for one in samples), sum(one.errors for one in samples), max(1, span_ms) / SECOND_MS,
        quantile_ms(counts, 0.5), quantile_ms(counts, 0.99),
    )  # fmt: skip


def of(version: Traffic, span_ms: int) -> Seen:
    """Of one version under trial, or in use beside it."""
    return Seen(version.requests, version.errors, max(1, span_ms) / SECOND_MS, version.p50_ms, version.p99_ms)


def by_endpoint(samples: Iterable[TrafficSample], span_ms: int) -> dict[str, Seen]:
    grouped: dict[str, list[TrafficSample]] = defaultdict(list)
    for sample in samples:
        grouped[sample.endpoint_id].append(sample)
    return {key: seen(rows, span_ms) for key, rows in grouped.items()}


def rate_chart(samples: Sequence[TrafficSample]) -> dict[str, Any]:
    return _chart(samples, "requests/s", {"": _rate})


def latency_chart(samples: Sequence[TrafficSample]) -> dict[str, Any]:
    return _chart(samples, "ms", {"p50": _quantile(0.5), "p99": _quantile(0.99)})


def error_chart(samples: Sequence[TrafficSample]) -> dict[str, Any]:
    return _chart(samples, "failed requests/s", {"": _errors})


def _rate(samples: Sequence[TrafficSample]) -> float | None:
    return sum(one.requests for one in samples) * SECOND_MS / BUCKET_MS


def _errors(samples: Sequence[TrafficSample]) -> float | None:
    return sum(one.errors for one in samples) * SECOND_MS / BUCKET_MS


def _quantile(share: float) -> Callable[[Sequence[TrafficSample]], float | None]:
    return lambda samples: quantile_ms(added(one.latencies for one in samples), share)


def _chart(
    samples: Sequence[TrafficSample],
    title: str,
    measures: dict[str, Callable[[Sequence[TrafficSample]], float | None]],
) -> dict[str, Any]:
    """A line for each version and measure, over time."""
    steps: dict[int, dict[int, list[TrafficSample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        steps[sample.model_version.version][sample.at_ms].append(sample)
    series = []
    for version, by_time in sorted(steps.items()):
        for name, measure in measures.items():
            points = [(at_ms + BUCKET_MS, measure(rows)) for at_ms, rows in sorted(by_time.items())]
            known = [(at_ms, value) for at_ms, value in points if value is not None]
            line = {"x": [at_ms for at_ms, _ in known], "y": [value for _, value in known]}
            series.append({"name": f"v{version} {name}".strip(), "key": name or title, "subject": "", **line})
    return {
        "x": {"kind": "time", "title": "time"},
        "y": {"title": title, "min": 0},
        "series": series,
        "marks": [],
    }
