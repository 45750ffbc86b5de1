"""Metrics of runs over REST: log, summaries, every point, curves by columns of pixels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from django.http import HttpResponseBase
from django.utils.cache import get_conditional_response
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.experiments import queries, services
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Points
from webapp.rest.bodies import sent
from webapp.rest.run_serializers import NUMBER, SummaryOut, number

MOST_POINTS = 100_000  # of a batch
MOST_CURVES = 100  # runs at once
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_LATEST_MS = 1 << 53
_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_POINT = {
    "type": "array",
    "description": "step, value, at_ms",
    "minItems": 3,
    "maxItems": 3,
    "items": NUMBER,
}


@extend_schema_field({"type": "array", "items": _POINT})
class PointsField(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: Any) -> tuple[list[int], list[float], list[int]]:
        if not isinstance(data, list):
            raise serializers.ValidationError("Send a list of [step, value, at_ms].")
        steps: list[int] = []
        values: list[float] = []
        times: list[int] = []
        for place, point in enumerate(data):
            try:
                step, value, at_ms = point
                steps.append(_whole(step, _LEAST, _MOST))
                values.append(_value(value))
                times.append(_whole(at_ms, 0, _LATEST_MS))
            except (TypeError, ValueError, OverflowError):
                shape = (
                    "[step, value, at_ms]: whole numbers, and a number or NaN, Infinity, -Infinity in quotes"
                )
                raise serializers.ValidationError(
                    f"Point {place} is {point!r:.80}; it must be {shape}."
                ) from None
        return steps, values, times


def _whole(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(value)
    return value


def _value(value: Any) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if type(value) not in (int, float):
        raise ValueError(value)
    return float(value)


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": fields.MAX_KEY})
class KeyField(serializers.Field[str, Any, str, Any]):
    """The name of a metric, by the same rule as those of parameters and tags."""

    def to_internal_value(self, data: Any) -> str:
        return fields.key(data, "metric")


class LoggedSeries(serializers.Serializer[Any]):
    key = KeyField()
    points = PointsField()


class LogBatch(serializers.Serializer[Any]):
    source = serializers.CharField(  # type: ignore[assignment]  # a field, not the attribute of fields
        max_length=fields.MAX_SOURCE, required=False, help_text="Name of the process, such as a UUID."
    )
    sequence = serializers.IntegerField(
        min_value=0, max_value=_MOST, required=False,
        help_text="Grows with each batch of the source; a batch at or below the highest changes nothing.",
    )  # fmt: skip
    attempt = serializers.IntegerField(
        min_value=0, max_value=1_000_000, required=False,
        help_text="Of a process that was resumed: a later attempt replaces the steps that it repeats. 0 if left out.",
    )  # fmt: skip
    metrics = serializers.ListField(child=LoggedSeries(), required=False, max_length=fields.MAX_METRICS)
    parameters = serializers.DictField(required=False)
    tags = serializers.DictField(required=False)
    lineage = serializers.DictField(
        required=False,
        help_text="packages, hardware, seed, git_commit, …; a field that cannot be kept is left out",
    )


class LoggedOut(serializers.Serializer[Any]):
    sequence = serializers.IntegerField(allow_null=True)


class RunLog(APIView):
    @extend_schema(request=LogBatch, responses={200: LoggedOut})
    def post(self, request: Request, run_id: str) -> Response:
        """Log a batch of metric points, parameters, tags and lineage: all of it, once for each sequence number.

        An empty batch is a sign of life.
        """
        actor, body = actor_of(request), sent(LogBatch, request)
        series = [Points(line["key"], *line["points"]) for line in body.get("metrics", [])]
        points = sum(len(line.steps) for line in series)
        if points > MOST_POINTS:
            size, limit = f"{points:,} points", f"{MOST_POINTS:,}"
            raise TrainmasterError("too_large", what="the batch", size=size, limit=limit)
        if ("source" in body) != ("sequence" in body):
            why = "send source and sequence together, or neither"
            raise TrainmasterError("request_invalid", what="source", why=why)
        batch = services.Batch(
            series,
            body.get("parameters", {}),
            body.get("tags", {}),
            body.get("lineage", {}),
            body.get("source", ""),
            body.get("sequence"),
            body.get("attempt", 0),
        )
        services.log_batch(actor, queries.find_run(actor, run_id), batch)
        return Response({"sequence": body.get("sequence")})


class SummariesOut(serializers.Serializer[Any]):
    metrics = serializers.DictField(child=SummaryOut())


class RunMetrics(APIView):
    @extend_schema(responses={200: SummariesOut})
    def get(self, request: Request, run_id: str) -> Response:
        """Read the summary of each metric of a run: first, last, least and greatest value with their steps."""
        run = queries.find_run(actor_of(request), run_id)
        return Response({"metrics": {key: SummaryOut(row).data for key, row in run.summaries.items()}})


@extend_schema_field({"type": "array", "items": _POINT})
class PointsOut(serializers.ListField):
    pass


class HistoryOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    points = PointsOut()
    next = serializers.CharField(allow_null=True, help_text="`cursor` of the next page; null: the last")


class RunHistory(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("key", required=True, description="Name of the metric."),
            OpenApiParameter("cursor", description="`next` of the previous page."),
            OpenApiParameter(
                "limit", OpenApiTypes.INT, description="Points a page, at most 100,000; 10,000 by default."
            ),
        ],
        responses={200: HistoryOut},
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Read every point of one metric, in the order of steps and times."""
        run, asked = queries.find_run(actor_of(request), run_id), request.query_params
        key = _key(run, asked.get("key", ""))
        limit = whole_number(asked.get("limit") or "10000", "limit", MOST_POINTS, 1)
        points, following = metrics.history(run.id, key, after=_cursor(asked.get("cursor", "")), limit=limit)
        lines = zip(points.steps, map(number, points.values), points.times_ms, strict=True)
        return Response({"key": key, "points": [list(line) for line in lines], "next": following})


def _key(run: Run, key: str) -> str:
    if key not in run.summaries:
        raise TrainmasterError("not_found", what=f"metric {key[:60]} of run {run.id}")
    return key


def _cursor(text: str) -> str | None:
    if not text:
        return None
    parts = (
        text.split(".") if re.fullmatch(r"-?[0-9]{1,19}\.-?[0-9]{1,19}\.[0-9]{1,15}", text, re.ASCII) else []
    )
    if len(parts) != 3 or not all(_LEAST <= int(part) <= _MOST for part in parts):
        raise TrainmasterError("request_invalid", what="cursor", why="send `next` of the previous page")
    return text


class CurveOut(serializers.Serializer[Any]):
    """Entry n of each list is one column of pixels."""

    x_from = serializers.ListField(child=serializers.FloatField())
    x_to = serializers.ListField(child=serializers.FloatField())
    low = serializers.ListField(child=serializers.FloatField(allow_null=True))
    high = serializers.ListField(child=serializers.FloatField(allow_null=True))
    mean = serializers.ListField(child=serializers.FloatField(allow_null=True))
    last = serializers.ListField(child=serializers.FloatField(allow_null=True))
    count = serializers.ListField(child=serializers.IntegerField())
    non_finite = serializers.ListField(child=serializers.IntegerField())


class CurvesOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    x = serializers.CharField()
    curves = serializers.DictField(
        child=CurveOut(), help_text="By run; a run without the metric is left out."
    )


class RunCurves(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter(
                "runs", required=True, description=f"Ids, separated by commas; at most {MOST_CURVES}."
            ),
            OpenApiParameter("key", required=True, description="Name of the metric."),
            OpenApiParameter(
                "columns", OpenApiTypes.INT, description="At most so many entries; 600 by default."
            ),
            OpenApiParameter(
                "x", description="step, relative (ms since the start), wall (ms) or metric:KEY."
            ),
            OpenApiParameter("from", OpenApiTypes.NUMBER, description="Least x; send it with `to`."),
            OpenApiParameter("to", OpenApiTypes.NUMBER, description="Greatest x."),
        ],
        responses={200: CurvesOut, 304: OpenApiResponse(description="Nothing has changed since this ETag.")},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Read the curves of one metric: least, greatest and mean value by column of pixels, for any window."""
        asked = request.query_params
        runs = _runs(request, asked.get("runs", ""))
        key, axis = asked.get("key", ""), asked.get("x") or "step"
        if not key or "\0" in key + axis:
            raise TrainmasterError("request_invalid", what="key", why="name a metric")
        if axis not in ("step", "relative", "wall") and not axis.startswith("metric:"):
            why = f"{axis[:40]!r} is none of step, relative, wall, metric:KEY"
            raise TrainmasterError("request_invalid", what="x", why=why)
        columns = whole_number(asked.get("columns") or "600", "columns", 5_000, 2)
        window = _window(asked)
        version = metrics.version([run.id for run in runs])
        starts = {run.id: run.started_ms or run.created_ms for run in runs}
        state = repr((sorted(starts.items()), version, key, axis, columns, window))
        etag = f'"{sha256(state.encode()).hexdigest()[:32]}"'
        unchanged = get_conditional_response(request._request, etag=etag)
        if unchanged is not None:
            return unchanged
        body = {"key": key, "x": axis, "curves": _curves(starts, key, columns, window, axis)}
        return Response(body, headers={"ETag": etag, "Cache-Control": "private, no-cache"})


def _runs(request: Request, text: str) -> list[Run]:
    ids = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not 1 <= len(ids) <= MOST_CURVES:
        why = f"name 1 to {MOST_CURVES} runs by their ids, separated by commas, not {len(ids)}"
        raise TrainmasterError("request_invalid", what="runs", why=why)
    actor = actor_of(request)
    return [queries.find_run(actor, run_id) for run_id in ids]


def _window(asked: Mapping[str, str]) -> tuple[float, float] | None:
    ends = [asked.get(name, "") for name in ("from", "to")]
    if not any(ends):
        return None
    try:
        low, high = map(float, ends)
    except ValueError:
        low, high = 1.0, 0.0
    if not (low <= high and max(abs(low), abs(high)) < 1e300):
        why = f"{ends[0][:40]!r} to {ends[1][:40]!r} is no stretch; send two numbers, the lesser first"
        raise TrainmasterError("request_invalid", what="from, to", why=why)
    return low, high


def _curves(
    starts: Mapping[str, int], key: str, columns: int, window: tuple[float, float] | None, axis: str
) -> dict[str, dict[str, Sequence[Any]]]:
    if axis != "relative":
        plain = metrics.bands(starts, key, columns=columns, window=window, axis=axis)
        return {run: asdict(found) for run, found in plain.items()}
    windows = (
        {run: (window[0] + start, window[1] + start) for run, start in starts.items()} if window else None
    )
    curves = {}
    for run, found in metrics.bands(starts, key, columns=columns, window=windows, axis="wall").items():
        columns_of = asdict(found)
        for end in ("x_from", "x_to"):
            columns_of[end] = [x - starts[run] for x in columns_of[end]]
        curves[run] = columns_of
    return curves
