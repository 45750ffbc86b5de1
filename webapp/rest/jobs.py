"""Training jobs over REST."""

import re
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.events.queries import story
from webapp.jobs import logs, lost_members, queries, references, services
from webapp.rest.job_serializers import (
    JOB_SPEC,
    SUBMISSION,
    DryRunOut,
    JobEventOut,
    JobListed,
    JobOut,
    LogOut,
    Loss,
    PriorityChange,
)
from webapp.rest.openapi import listed
from webapp.scheduling import dry_run

_COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)


class JobPages(CursorPagination):
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500
    ordering = ("-submitted_ms", "-id")

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self._cursor(self.get_next_link())})

    def _cursor(self, link: str | None) -> str | None:
        """Only the cursor: a client that was given a URL of ours would send its token wherever that points."""
        return link.split("cursor=")[1].split("&")[0] if link else None

    def decode_cursor(self, request: Request) -> Any:
        unknown = TrainmasterError("request_invalid", what="cursor", why="send `next` of the previous page")
        try:
            cursor = super().decode_cursor(request)
        except NotFound as error:
            raise unknown from error
        if cursor is not None and cursor.position is not None and not _COUNT.fullmatch(str(cursor.position)):
            raise unknown
        return cursor


_FILTERS = [
    OpenApiParameter("state", description="A state, or a group of states: active, waiting or finished."),
    OpenApiParameter("team", description="Only of this team."),
    OpenApiParameter("user", description="Only of this username."),
    OpenApiParameter("search", description="Part of the name or project, or the beginning of the id."),
    OpenApiParameter("cursor", description="`next` of the previous page."),
    OpenApiParameter("limit", OpenApiTypes.INT, description="Jobs a page, at most 500; 50 by default."),
]


class Jobs(APIView):
    pagination_class: ClassVar = JobPages

    @extend_schema(parameters=_FILTERS, responses=listed(JobListed, paged=True))
    def get(self, request: Request) -> Response:
        """List the jobs of your teams, newest first."""
        wanted = {name: request.query_params.get(name, "") for name in ("state", "team", "user", "search")}
        if wanted["state"] not in ("", *queries.STATE_NAMES):
            why = f"{wanted['state']!r} is none of {', '.join(queries.STATE_NAMES)}"
            raise TrainmasterError("request_invalid", what="state", why=why)
        jobs = queries.filtered(queries.visible(actor_of(request).sees), **wanted)
        pages = JobPages()
        return pages.get_paginated_response(
            JobListed(pages.paginate_queryset(jobs.defer("lineage"), request, view=self), many=True).data
        )

    @extend_schema(
        request={"application/json": SUBMISSION},
        responses={201: JobOut, 200: JobOut},
        parameters=[
            OpenApiParameter(
                "Idempotency-Key", location="header", description="A repeated key returns the job it made."
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Submit a job: the fields of a job file, and optionally `lineage` (git commit, diff, folder)."""
        if not isinstance(request.data, dict):
            raise TrainmasterError(
                "request_invalid", what="the body", why="it must be a JSON object with the job's fields"
            )
        mapping = dict(request.data)
        lineage = mapping.pop("lineage", None)
        if lineage is not None and not isinstance(lineage, dict):
            raise TrainmasterError("request_invalid", what="lineage", why="it must be an object")
        key = request.headers.get("Idempotency-Key")
        job, new = services.submit(actor_of(request), mapping, idempotency_key=key, lineage=lineage)
        return Response(JobOut(job).data, status=201 if new else 200)


class JobByReference(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter(
                "job",
                required=True,
                description="Id, NAME or TEAM/NAME, or the beginning of the id of a job.",
            )
        ],
        responses={200: JobListed},
    )
    def get(self, request: Request) -> Response:
        """Find a job by its id, its name, or the beginning of its id.

        Of several jobs with the name in one team the newest counts. Names in several teams, and beginnings of several
        ids, are refused with the candidates.
        """
        reference = request.query_params.get("job", "")
        return Response(JobListed(references.resolve(actor_of(request).sees, reference)).data)


class JobDryRun(APIView):
    @extend_schema(request={"application/json": JOB_SPEC}, responses={200: DryRunOut})
    def post(self, request: Request) -> Response:
        """Predict when a job would start if it were submitted now, and what would start it at once."""
        if not isinstance(request.data, dict):
            raise TrainmasterError(
                "request_invalid", what="the body", why="it must be a JSON object with the job's fields"
            )
        return Response(DryRunOut(dry_run.dry_run(actor_of(request), request.data)).data)


class JobDetail(APIView):
    @extend_schema(responses={200: JobOut})
    def get(self, request: Request, job_id: str) -> Response:
        """Read a job."""
        return Response(JobOut(queries.job_for(request, job_id)).data)

    @extend_schema(request=PriorityChange, responses={200: JobOut})
    def patch(self, request: Request, job_id: str) -> Response:
        """Change the priority of a job, the only field that can be changed. For leads."""
        queries.job_for(request, job_id)
        given = request.data if isinstance(request.data, dict) else {}
        priority = given.get("priority")
        if set(given) != {"priority"} or not isinstance(priority, int) or isinstance(priority, bool):
            why = 'it must be {"priority": N} with a whole number'
            raise TrainmasterError("request_invalid", what="the body", why=why)
        services.change_priority(actor_of(request), job_id, priority)
        return Response(JobOut(queries.find(job_id)).data)


class JobCancel(APIView):
    @extend_schema(request=None, responses={202: JobOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Cancel a job: a waiting one at once, a running one once its processes have stopped."""
        queries.job_for(request, job_id)
        services.cancel(actor_of(request), job_id)
        return Response(JobOut(queries.find(job_id)).data, status=202)


class JobLost(APIView):
    @extend_schema(request=Loss, responses={200: JobOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Declare a stopping job lost on the nodes that do not respond. For platform admins.

        Its slots there are freed and these nodes are drained.
        """
        queries.job_for(request, job_id)
        given = request.data if isinstance(request.data, dict) else {}
        cause = given.get("cause", "")
        if not isinstance(cause, str):
            raise TrainmasterError("request_invalid", what="cause", why="it must be a sentence")
        lost_members.declare_lost(actor_of(request), job_id, cause)
        return Response(JobOut(queries.find(job_id)).data)


class JobLogs(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("after", OpenApiTypes.INT, description="`next` of the previous answer."),
            OpenApiParameter("rank", OpenApiTypes.INT, description="Only lines of this rank."),
            OpenApiParameter("search", description="Only lines with this text."),
        ],
        responses={200: LogOut},
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Read log lines in the order they arrived. Continue from `next` until `ended`."""
        job = queries.job_for(request, job_id)
        rank = request.query_params.get("rank")
        after = _number(request, "after")
        lines = logs.read(
            job.id,
            after=after,
            rank=_number(request, "rank") if rank else None,
            search=request.query_params.get("search", ""),
        )
        ended = job.finished_ms is not None and lines.after == after
        return Response({"lines": lines.lines, "next": lines.after, "ended": ended})


class JobEvents(APIView):
    @extend_schema(responses=listed(JobEventOut))
    def get(self, request: Request, job_id: str) -> Response:
        """List all events of a job, oldest first."""
        job = queries.job_for(request, job_id)
        events = [
            {"kind": e.kind, "at_ms": e.at_ms, "actor": e.actor, "cause": e.cause, "data": e.data}
            for e in story(f"job:{job.id}")
        ]
        return Response({"results": events})


def _number(request: Request, name: str) -> int:
    return whole_number(request.query_params.get(name, "") or "0", name)
