"""Curves as columns of pixels, out of the store."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from webapp.base.identity import now_ms
from webapp.metrics import drawing, queries, segments, services
from webapp.metrics.models import Segment, Series, Subject
from webapp.metrics.values import Points

pytestmark = pytest.mark.django_db
RUN = "run-of-the-tests"
STEPS = 20_000


@pytest.fixture
def noisy() -> np.ndarray:
    values = np.random.default_rng(3).normal(size=STEPS)
    values[[500, 5_001]] = math.nan, math.inf
    services.append(RUN, [Points("loss", np.arange(STEPS), values, np.arange(STEPS) * 10 + 1_000)])
    return values


@pytest.mark.parametrize("window", [None, (0, STEPS - 1), (300, 9_000), (500, 700), (777, 777), (-5, 10**9)])
@pytest.mark.parametrize("axis", ["step", "wall"])
def test_each_column_has_the_extremes_of_exactly_the_points_it_names(
    noisy: np.ndarray, window: tuple[int, int] | None, axis: str
) -> None:
    wanted = window if window is None or axis == "step" else (window[0] * 10 + 1_000, window[1] * 10 + 1_000)
    bands = queries.bands([RUN, "other"], "loss", columns=100, window=wanted, axis=axis)
    assert list(bands) == [RUN]
    drawn = bands[RUN]
    assert len(drawn.count) <= 100
    low, high = window or (0, STEPS - 1)
    assert sum(drawn.count) == min(high, STEPS - 1) - max(low, 0) + 1
    for index, (start, end) in enumerate(zip(drawn.x_from, drawn.x_to, strict=True)):
        if axis == "wall":
            start, end = (start - 1_000) // 10, (end - 1_000) // 10
        part = noisy[int(start) : int(end) + 1]
        finite = part[np.isfinite(part)]
        assert (drawn.count[index], drawn.non_finite[index]) == (len(part), len(part) - len(finite))
        assert (drawn.low[index], drawn.high[index]) == (finite.min(), finite.max())
        assert drawn.mean[index] == pytest.approx(finite.mean())


def test_a_curve_over_another_metric_takes_the_steps_that_both_have() -> None:
    services.append(RUN, [Points("loss", [1, 2, 3], [3.0, 2.0, 1.0], [1, 2, 3])])
    services.append(RUN, [Points("epoch", [1, 3, 4], [0.5, 1.5, 2.0], [1, 3, 4])])
    drawn = queries.bands([RUN], "loss", columns=10, axis="metric:epoch")[RUN]
    assert (drawn.x_from, drawn.last) == ([0.5, 1.5], [3.0, 1.0])


def test_a_window_zoomed_out_reads_no_points(noisy: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(segments, "decoded", lambda ids: read.extend(ids) or {})
    queries.bands([RUN], "loss", columns=20)
    assert read == []


def test_a_page_asks_for_what_is_new_and_gets_it_whatever_compaction_did(noisy: np.ndarray) -> None:
    before = queries.latest(RUN).version
    assert queries.latest(RUN, before).points == {}
    services.append(RUN, [Points("loss", [STEPS, STEPS + 1], [1.0, 2.0], [5, 6])])
    services.compact(RUN)
    latest = queries.latest(RUN, before)
    assert list(latest.points["loss"].steps)[-2:] == [STEPS, STEPS + 1]
    assert queries.version([RUN, "unknown"]) == (latest.version, 0)
    assert latest.version == before + 1


def test_many_small_batches_ask_for_compaction_now_and_then(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(services.current_app, "send_task", lambda name, args, **options: sent.append(args[0]))
    with django_capture_on_commit_callbacks(execute=True):
        for step in range(300):
            services.append(RUN, [Points("loss", [step], [1.0], [step])])
    assert sent == [RUN, RUN]
    services.compact(RUN)
    [segment] = segments.extents(Series.objects.get().pk)
    assert segment.compacted


def test_a_clock_compacts_what_fell_silent_and_deletes_what_is_old(settings: Any) -> None:
    for subject in ("silent", "reporting"):
        services.append(subject, [Points("loss", [1], [1.0], [1])])
        services.append(subject, [Points("loss", [2], [1.0], [2])])
    Subject.objects.filter(id="silent").update(changed_ms=now_ms() - 2 * 86_400_000)
    services.sweep()
    assert dict(Subject.objects.values_list("id", "compacted_version")) == {"silent": 2, "reporting": 0}
    assert Segment.objects.filter(series__subject="silent").get().count == 2
    services.retain()
    assert queries.keys(["silent"]) == ["loss"]
    settings.METRIC_RETENTION_DAYS = 1
    services.retain()
    assert (queries.keys(["silent"]), queries.keys(["reporting"])) == ([], ["loss"])


def test_curves_of_many_metrics_are_each_as_alone_however_many_fit_into_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [f"metric-{number}" for number in range(5)]
    for subject in (RUN, "another"):
        batch = [
            Points(key, np.arange(300 + size), np.arange(300 + size) % 7, np.arange(300 + size))
            for size, key in enumerate(keys)
        ]
        services.append(subject, batch)
    alone = {key: queries.bands([RUN, "another"], key, columns=50) for key in keys}
    for most in (1, 700, 10**6):
        monkeypatch.setattr(drawing, "POINTS_AT_ONCE", most)
        together = queries.bands_of_keys(["another", RUN], [*keys, "unknown"], columns=50)
        assert together == alone | {"unknown": {}}


@pytest.mark.parametrize(
    "read",
    [
        lambda: queries.bands([RUN], "loss", columns=100)[RUN],
        lambda: queries.bands([RUN], "loss", columns=100, window=(30, 900))[RUN],
        lambda: queries.points_by_time(RUN, "loss", 30, 900)[0].tolist(),
    ],
)
def test_segments_that_are_replaced_while_they_are_read_are_read_anew(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any]
) -> None:
    for start in range(0, 1_000, 50):
        steps = range(start, start + 50)
        services.append(RUN, [Points("loss", steps, [step / 3 for step in steps], steps)])
    expected, payloads = read(), segments.payloads
    asked: list[set[int]] = []

    def compacted_first(ids: list[int]) -> Any:
        services.compact(RUN)
        asked.append(set(ids))
        return payloads(ids)

    monkeypatch.setattr(segments, "payloads", compacted_first)
    assert read() == expected
    first, second = asked
    assert first.isdisjoint(second)
