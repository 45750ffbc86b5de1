"""The efficiency of a run over REST."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.efficiency.chargeback import ALL, charges, period_of
from platform_core.efficiency.waste import Use, totals
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments import efficiency, queries
from webapp.experiments.usage import uses
from webapp.jobs import profiles
from webapp.jobs import queries as jobs


def _number(help_text: str = "") -> serializers.FloatField:
    return serializers.FloatField(allow_null=True, help_text=help_text)


class BreakdownOut(serializers.Serializer[Any]):
    """Shares of the wall time, which add up to 1."""

    compute = serializers.FloatField(help_text="What is left of the others.")
    communication = _number("Null: not measured, and a part of compute.")
    # The name of a property of serializers, which as a field takes nothing from it.
    data = serializers.FloatField(help_text="Waiting for the next batch.")  # type: ignore[assignment]
    checkpoint = serializers.FloatField()
    evaluation = serializers.FloatField()
    is_mixed = serializers.BooleanField(
        help_text="Ranks differ in communication, so its mean is that of no rank: one waits where another computes."
    )


class RankOut(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    step_seconds = serializers.FloatField()
    own_seconds = _number("Of a step, without waiting in collectives; null where no profile measured that.")
    data = serializers.FloatField()  # type: ignore[assignment]
    evaluation = serializers.FloatField()
    checkpoint = serializers.FloatField()
    communication = _number()
    mfu = _number()
    flops_per_second = _number()
    samples_per_second = _number()
    tokens_per_second = _number()
    memory_bytes = _number()


class StragglerOut(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    node = serializers.CharField(help_text="Hostname; empty where it is not known.")
    times = serializers.FloatField(help_text="Its own time of a step over the median.")


class TargetOut(serializers.Serializer[Any]):
    low = serializers.FloatField()
    high = serializers.FloatField()


class EfficiencyAdviceOut(serializers.Serializer[Any]):
    code = serializers.CharField()
    title = serializers.CharField()
    evidence = serializers.CharField()
    remedy = serializers.CharField()
    gain = _number("Share of the time of a step that it may save, at most.")


class EfficiencyOut(serializers.Serializer[Any]):
    breakdown = BreakdownOut(allow_null=True, help_text="Null before anything was measured.")
    step_seconds = _number()
    samples_per_second = _number("Of all ranks together.")
    tokens_per_second = _number("Of all ranks together.")
    flops_per_second = _number("Of all ranks together.")
    mfu = _number("0 to 1; null where it was not measured.")
    mfu_missing = serializers.CharField(help_text="Why there is no MFU; '' with one.")
    target = TargetOut(allow_null=True, help_text="MFU that a well-tuned run of this size reaches.")
    utilisation = _number("0 to 1, mean of its slots.")
    memory_bytes = _number("Most of any rank.")
    ranks = RankOut(many=True)
    stragglers = StragglerOut(many=True)
    slow_nodes = serializers.ListField(
        child=serializers.CharField(), help_text="All ranks of these are slow."
    )
    not_measured = serializers.CharField(
        help_text="What nobody knows of communication and stragglers; '' where all ranks were profiled together."
    )
    advice = EfficiencyAdviceOut(many=True)


class RunEfficiency(APIView):
    @extend_schema(responses=EfficiencyOut)
    def get(self, request: Request, run_id: str) -> Response:
        """Read how well a run, or the run of a job, uses its hardware, and what limits it."""
        found = efficiency.of_run(queries.find_run(actor_of(request), run_id))
        parts = found.breakdown
        body = asdict(found) | {
            "breakdown": None if parts is None else asdict(parts) | {"is_mixed": parts.is_mixed},
            "ranks": [asdict(rank) | {"own_seconds": rank.own_seconds} for rank in found.ranks],
        }
        return Response(EfficiencyOut(body).data)


MOST_DAYS = 92
_KEYS: dict[str, Callable[[Use], str]] = {
    "team": lambda use: use.team,
    "user": lambda use: use.user,
    "gpu_type": lambda use: use.gpu_type,
    "job": lambda use: use.job,
}


class TotalOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    jobs = serializers.IntegerField()
    gpu_ms = serializers.IntegerField()
    micro_dollars = serializers.IntegerField()
    wasted_ms = serializers.IntegerField(
        help_text="GPU time in which its GPU was idle, of jobs that were measured."
    )
    wasted_micro_dollars = serializers.IntegerField()
    utilisation = _number("0 to 1, weighted by GPU time.")
    mfu = _number("0 to 1, weighted by GPU time.")


class WasteOut(serializers.Serializer[Any]):
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    results = TotalOut(many=True, help_text="The greatest waste first.")


class Waste(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("by", str, enum=list(_KEYS), description="What to group by; team without it."),
            OpenApiParameter("days", int, description=f"Days up to now, 1 to {MOST_DAYS}; 7 without it."),
        ],
        responses=WasteOut,
    )
    def get(self, request: Request) -> Response:
        """Sum GPU time, utilisation, MFU and waste of your teams by team, user, GPU type or job."""
        actor = actor_of(request)
        require(actor, "cluster.view")
        by, days = request.GET.get("by", "team"), request.GET.get("days", "7")
        if by not in _KEYS:
            raise TrainmasterError(
                "request_invalid", what="by", why=f"{by[:40]!r} is none of {', '.join(_KEYS)}"
            )
        if not (days.isascii() and days.isdigit() and len(days) < 4 and 1 <= int(days) <= MOST_DAYS):
            why = f"{days[:20]!r} is no number from 1 to {MOST_DAYS}"
            raise TrainmasterError("request_invalid", what="days", why=why)
        now = now_ms()
        from_ms = now - int(days) * DAY_MS
        found = [asdict(each) for each in totals(uses(actor.sees, from_ms, now), _KEYS[by])]
        return Response(WasteOut({"from_ms": from_ms, "to_ms": now, "results": found}).data)


class ChargeOut(serializers.Serializer[Any]):
    team = serializers.CharField(help_text=f"{ALL} in the last line, the sum of all.")
    gpu_type = serializers.CharField(help_text=f"{ALL} in the line with the sum of a team.")
    total = TotalOut()


class ChargebackOut(serializers.Serializer[Any]):
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    results = ChargeOut(many=True)


class Chargeback(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("month", str, description="As in 2026-10; the last that is over without it."),
            OpenApiParameter("from", str, description="First day, as in 2026-10-01, instead of a month."),
            OpenApiParameter("to", str, description="Last day."),
        ],
        responses=ChargebackOut,
    )
    def get(self, request: Request) -> Response:
        """What your teams are charged for a period in UTC: GPU-hours, cost and waste by team and GPU type."""
        actor, now = actor_of(request), now_ms()
        require(actor, "cluster.view")
        month, first, last = (request.GET.get(name, "") for name in ("month", "from", "to"))
        period = period_of(month, first, last, now)
        found = [asdict(each) for each in charges(uses(actor.sees, period.from_ms, min(now, period.to_ms)))]
        return Response(
            ChargebackOut({"from_ms": period.from_ms, "to_ms": period.to_ms, "results": found}).data
        )


class NewProfile(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(
        sorted(profiles.KINDS),
        default="trace",
        help_text="trace of torch's profiler; memory: each allocation; flame: where the threads are",
    )
    steps = serializers.IntegerField(min_value=1, max_value=profiles.MOST_STEPS, default=profiles.STEPS)
    ranks = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=1_000_000),
        min_length=1,
        max_length=profiles.MOST_RANKS,
        default=[0],
    )


class ProfileOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(sorted(profiles.KINDS))
    number = serializers.IntegerField(
        help_text="Its file becomes the artifact profile-NUMBER-rank-RANK.json.gz, or memory-… or flame-…."
    )
    steps = serializers.IntegerField()
    ranks = serializers.ListField(child=serializers.IntegerField())


class JobProfile(APIView):
    @extend_schema(request=NewProfile, responses={202: ProfileOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Order a profile of the next steps of a running job, without a restart. It is kept with its run."""
        job = jobs.job_for(request, job_id)
        wanted = NewProfile(data=request.data)
        wanted.is_valid(raise_exception=True)
        order = profiles.order(actor_of(request), job.id, **wanted.validated_data)
        return Response(ProfileOut(asdict(order) | {"ranks": list(order.ranks)}).data, status=202)
