"""Sweeps over REST: start and steer them, read their trials, and ask and tell for tuners outside."""

from typing import Any

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.units import HOUR_MS, MICRO_DOLLARS
from webapp.accounts.queries import actor_of
from webapp.rest.bodies import sent
from webapp.rest.enums import SweepState, TrialState
from webapp.rest.openapi import listed
from webapp.sweeps import outside, queries, services
from webapp.sweeps.models import Sweep, Trial

MOST_LISTED = 200
MOST_POINTS = 10_000
SWEEP_SPEC = {"$ref": "#/components/schemas/SweepSpec"}
LINEAGE = {"type": "object", "description": "git commit, diff and folder, as the command line sends them"}
SUBMISSION = {"allOf": [SWEEP_SPEC, {"type": "object", "properties": {"lineage": LINEAGE}}]}


@extend_schema_field(SWEEP_SPEC)
class SpecOut(serializers.JSONField):
    """What was asked for, in the fields of a sweep file."""


class TrialOut(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    state = serializers.ChoiceField(choices=TrialState)
    parameters = serializers.DictField()
    job = serializers.CharField(source="job_id", allow_null=True)
    value = serializers.FloatField(allow_null=True, help_text="Of the metric; null before one is known.")
    step = serializers.IntegerField(allow_null=True, help_text="Step of the value.")
    reason = serializers.CharField(help_text="Why it was pruned, failed or was cancelled.")
    started_ms = serializers.IntegerField(allow_null=True)
    ended_ms = serializers.IntegerField(allow_null=True)


class SweepOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField(source="team_id")
    user = serializers.CharField(source="user.username")
    url = serializers.SerializerMethodField()
    state = serializers.ChoiceField(choices=SweepState)
    reason = serializers.CharField(help_text="Why it is paused or ended.")
    trials = serializers.IntegerField(source="count", help_text="Proposed so far.")
    running = serializers.IntegerField(help_text="Trials whose jobs have not ended.")
    pruned = serializers.IntegerField()
    best = serializers.SerializerMethodField(help_text="The best trial; null before one has succeeded.")
    gpu_hours = serializers.SerializerMethodField()
    cost = serializers.SerializerMethodField(help_text="In dollars.")
    created_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField(allow_null=True)
    spec = SpecOut()

    def get_url(self, row: Sweep) -> str:
        return f"{settings.PUBLIC_URL}/sweeps/{row.id}/"

    @extend_schema_field(TrialOut(allow_null=True))
    def get_best(self, row: Sweep) -> dict[str, Any] | None:
        best = queries.best_of(row)
        if best is None:
            return None
        return dict(TrialOut(Trial.objects.get(sweep=row.pk, number=best.number)).data)

    @extend_schema_field(OpenApiTypes.FLOAT)
    def get_gpu_hours(self, row: Sweep) -> float:
        return row.gpu_ms / HOUR_MS

    @extend_schema_field(OpenApiTypes.FLOAT)
    def get_cost(self, row: Sweep) -> float:
        return row.micro_dollars / MICRO_DOLLARS


def _answer(row_id: str, status: int = 200) -> Response:
    return Response(SweepOut(queries.visible(None).get(id=row_id)).data, status=status)


def _mapping(request: Request, what: str) -> dict[str, Any]:
    if not isinstance(request.data, dict):
        raise TrainmasterError(
            "request_invalid", what="the body", why=f"it must be a JSON object with {what}"
        )
    return dict(request.data)


class Sweeps(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team."),
            OpenApiParameter("search", description="Part of the name."),
        ],
        responses=listed(SweepOut),
    )
    def get(self, request: Request) -> Response:
        """List the newest 200 sweeps of your teams."""
        rows = queries.visible(actor_of(request).sees)
        if team := request.query_params.get("team"):
            rows = rows.filter(team=team)
        if search := request.query_params.get("search"):
            rows = rows.filter(name__icontains=search)
        return Response({"results": SweepOut(rows[:MOST_LISTED], many=True).data})

    @extend_schema(
        request={"application/json": SUBMISSION},
        responses={201: SweepOut, 200: SweepOut},
        parameters=[
            OpenApiParameter(
                "Idempotency-Key", location="header", description="A repeated key returns the sweep it made."
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Start a sweep: the fields of a sweep file, and optionally `lineage` (git commit, diff, folder)."""
        mapping = _mapping(request, "the fields of a sweep")
        lineage = mapping.pop("lineage", None)
        if lineage is not None and not isinstance(lineage, dict):
            raise TrainmasterError("request_invalid", what="lineage", why="it must be an object")
        key = request.headers.get("Idempotency-Key")
        row, new = services.create(actor_of(request), mapping, lineage=lineage, idempotency_key=key)
        return _answer(row.id, 201 if new else 200)


class OneSweep(APIView):
    @extend_schema(responses={200: SweepOut})
    def get(self, request: Request, sweep_id: str) -> Response:
        """Read a sweep with its best trial."""
        return _answer(services.found(actor_of(request), sweep_id).id)


class Pause(APIView):
    @extend_schema(request=None, responses={200: SweepOut})
    def post(self, request: Request, sweep_id: str) -> Response:
        """Pause a sweep: nothing new is submitted, trials that have begun go on."""
        services.pause(actor_of(request), sweep_id)
        return _answer(sweep_id)


class Resume(APIView):
    @extend_schema(request=None, responses={200: SweepOut})
    def post(self, request: Request, sweep_id: str) -> Response:
        """Resume a paused sweep."""
        services.resume(actor_of(request), sweep_id)
        return _answer(sweep_id)


class Cancel(APIView):
    @extend_schema(request=None, responses={202: SweepOut})
    def post(self, request: Request, sweep_id: str) -> Response:
        """Cancel a sweep: its trials are stopped, saving first."""
        services.cancel(actor_of(request), sweep_id)
        return _answer(sweep_id, 202)


class BudgetChange(serializers.Serializer[Any]):
    trials = serializers.IntegerField(required=False)
    gpu_hours = serializers.FloatField(required=False, help_text="0: no limit.")
    cost = serializers.FloatField(required=False, help_text="In dollars; 0: no limit.")
    hours = serializers.FloatField(required=False, help_text="Since the sweep was created; 0: no limit.")


class BudgetView(APIView):
    @extend_schema(request=BudgetChange, responses={200: SweepOut})
    def patch(self, request: Request, sweep_id: str) -> Response:
        """Change parts of the budget; a sweep that has ended for lack of it goes on."""
        services.change_budget(actor_of(request), sweep_id, sent(BudgetChange, request))
        return _answer(sweep_id)


class Trials(APIView):
    @extend_schema(responses=listed(TrialOut))
    def get(self, request: Request, sweep_id: str) -> Response:
        """List the trials of a sweep in the order of their numbers."""
        services.found(actor_of(request), sweep_id)
        return Response({"results": TrialOut(queries.trials(sweep_id), many=True).data})


class Question(serializers.Serializer[Any]):
    parameters = serializers.DictField(
        required=False,
        help_text="A setting that the program chose; without it the method of the sweep chooses.",
    )
    key = serializers.CharField(required=False, help_text="The same key gives the same trial again.")


class Ask(APIView):
    @extend_schema(request=Question, responses={201: TrialOut})
    def post(self, request: Request, sweep_id: str) -> Response:
        """Ask for the next trial. A sweep with a job runs it; otherwise the program does, and tells the value."""
        question = sent(Question, request)
        trial = outside.ask(actor_of(request), sweep_id, question.get("parameters"), question.get("key"))
        return Response(TrialOut(trial).data, status=201)


class Telling(serializers.Serializer[Any]):
    points: Any = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=2, max_length=2),
        required=False, max_length=MOST_POINTS, help_text="[step, value] in any order.",
    )  # fmt: skip
    value = serializers.FloatField(required=False, help_text="The value of the whole trial, which ends it.")
    state = serializers.CharField(required=False, help_text="succeeded, failed or cancelled, which ends it.")


class Tell(APIView):
    @extend_schema(request=Telling, responses={200: TrialOut})
    def post(self, request: Request, sweep_id: str, number: int) -> Response:
        """Tell what a program measured of a trial; the answer says whether it was pruned."""
        told = sent(Telling, request)
        points = [(_step(step), value) for step, value in told.get("points", ())]
        trial = outside.tell(
            actor_of(request),
            sweep_id,
            number,
            points=points,
            value=told.get("value"),
            state=told.get("state"),
        )
        return Response(TrialOut(trial).data)


def _step(step: float) -> int:
    if not 0 <= step < 2**53 or step != int(step):
        why = "it must be a whole number from 0"
        raise TrainmasterError("request_invalid", what=f"the step {step:g}", why=why)
    return int(step)
