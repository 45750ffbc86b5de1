"""Stack dumps of jobs over REST, and what follows for jobs that hang."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.jobs.stacks import Activity
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import hangs, queries
from webapp.jobs.models import Hang, Job
from webapp.rest.job_serializers import JobOut


class StackOut(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    activity = serializers.ChoiceField(choices=list(Activity))
    function = serializers.CharField(help_text="The collective, or the innermost function of the script.")
    location = serializers.CharField(help_text="FILE:LINE of the script.")
    state = serializers.CharField(help_text="State of a process that gave no stack.")
    step = serializers.IntegerField()
    moving = serializers.BooleanField(help_text="Another stack came a few seconds later: it works.")


class HangOut(serializers.Serializer[Any]):
    stage = serializers.ChoiceField(choices=Hang.Stage.choices)
    since_ms = serializers.IntegerField(help_text="Time of the last sign of progress.")
    limit_ms = serializers.IntegerField(help_text="The silence that the job's own steps allow.")
    step = serializers.IntegerField()
    sentence = serializers.CharField(help_text="Which rank is stuck where, and what the others wait in.")


class StacksOut(serializers.Serializer[Any]):
    hang = HangOut(allow_null=True, help_text="Null unless the job hangs now.")
    taken_ms = serializers.IntegerField(help_text="Time of the last of these dumps; 0 without any.")
    ranks = StackOut(many=True, help_text="The newest stack dumps, by rank. The whole text is in the log.")


class JobStacks(APIView):
    @extend_schema(responses=StacksOut)
    def get(self, request: Request, job_id: str) -> Response:
        """Read the newest stack dumps of a job, and whether it hangs."""
        return Response(_stacks(queries.job_for(request, job_id)))

    @extend_schema(request=None, responses={202: StacksOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Order stack dumps of all ranks of a running job. They arrive within about ten seconds."""
        job = queries.job_for(request, job_id)
        hangs.order_stacks(actor_of(request), job.id)
        return Response(_stacks(job), status=202)


class JobRestart(APIView):
    @extend_schema(request=None, responses={202: JobOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Restart a job that hangs, from its last checkpoint."""
        queries.job_for(request, job_id)
        hangs.restart(actor_of(request), job_id)
        return Response(JobOut(queries.find(job_id)).data, status=202)


def _stacks(job: Job) -> Any:
    hang = hangs.open_hang(job)
    shown = None
    if hang is not None:
        names = ("stage", "since_ms", "limit_ms", "step")
        shown = {name: getattr(hang, name) for name in names} | {"sentence": hangs.sentence(hang, now_ms())}
    return StacksOut({"hang": shown, "taken_ms": hangs.taken_ms(job), "ranks": hangs.stacks(job)}).data
