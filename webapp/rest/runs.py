"""Runs over REST: create, find, change, finish, delete, restore."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed
from webapp.rest.run_serializers import (
    BulkChange,
    BulkChanged,
    Finish,
    NewRun,
    OneRunOut,
    RunChange,
    RunOut,
    Search,
)

_ID = re.compile(r"[0-9]{1,18}", re.ASCII)
_LISTED = listed(RunOut, paged=True)


def page(actor: Actor, wanted: Mapping[str, Any]) -> Response:
    found = queries.search_runs(
        actor,
        experiments=wanted.get("experiments"),
        teams=wanted.get("teams"),
        filter=wanted.get("filter", ""),
        order_by=wanted.get("order", ()),
        limit=wanted.get("limit", 100),
        cursor=wanted.get("cursor", ""),
        view=wanted.get("view", "active"),
    )
    lines = RunOut(queries.with_summaries(found.runs), many=True).data
    return Response({"results": lines, "next": found.next_cursor})


class Runs(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team; may be repeated."),
            OpenApiParameter("experiment", description="Only of this one, by id or name; may be repeated."),
            OpenApiParameter("filter", description="Such as metrics.loss < 0.5; docs/reference/filter.md."),
            OpenApiParameter(
                "order", description="Such as metrics.loss ASC, start_time DESC; newest first without."
            ),
            OpenApiParameter("view", description="active (the default), archived, deleted or all."),
            OpenApiParameter("cursor", description="`next` of the previous page."),
            OpenApiParameter(
                "limit", OpenApiTypes.INT, description="Runs a page, at most 1,000; 100 by default."
            ),
        ],
        responses=_LISTED,
    )
    def get(self, request: Request) -> Response:
        """List the runs of your teams that match a filter."""
        asked = request.query_params
        wanted: dict[str, Any] = {
            name: asked[name] for name in ("filter", "cursor", "view") if asked.get(name)
        }
        if asked.get("order"):
            wanted["order"] = [asked["order"]]
        if asked.get("limit"):
            wanted["limit"] = whole_number(asked["limit"], "limit", 1000, 1)
        if teams := [team for team in asked.getlist("team") if team]:
            wanted["teams"] = [_without_nul(team) for team in teams]
        if experiments := [text for text in asked.getlist("experiment") if text]:
            wanted["experiments"] = [
                int(text) if _ID.fullmatch(text) else _without_nul(text) for text in experiments
            ]
        return page(actor_of(request), wanted)

    @extend_schema(request=NewRun, responses={201: OneRunOut, 200: OneRunOut})
    def post(self, request: Request) -> Response:
        """Create a run without a job. The same `run_id` again returns the run that it made."""
        actor = actor_of(request)
        body = dict(sent(NewRun, request))
        team, name, number = (body.pop(field, None) for field in ("team", "experiment", "experiment_id"))
        experiment = _experiment(actor, team, name, number)
        parent = body.pop("parent", None)
        if parent is not None:
            body["parent"] = queries.find_run(actor, parent)
        known = queries.exists(body.get("run_id", ""))
        run = services.create_run(actor, experiment, **body)
        return Response(OneRunOut(run).data, status=200 if known else 201)


def _experiment(actor: Actor, team: str | None, name: str | None, number: int | None) -> Experiment:
    if number is not None:
        return queries.find_experiment(actor, number, team=team)
    if team is None and len(actor.teams) != 1:
        why = f"you are in {len(actor.teams)} teams; name the one that the run is of"
        raise TrainmasterError("request_invalid", what="team", why=why)
    return services.ensure_experiment(actor, team or actor.teams[0], name or services.DEFAULT_EXPERIMENT)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise TrainmasterError("request_invalid", what="team or experiment", why="it has the character NUL")
    return text


class RunSearch(APIView):
    @extend_schema(request=Search, responses=_LISTED)
    def post(self, request: Request) -> Response:
        """Find runs, as GET /runs does, with a body for long filters."""
        return page(actor_of(request), sent(Search, request))


class RunsBulk(APIView):
    _verbs: ClassVar = {
        "archive": services.archive_runs,
        "delete": services.delete_runs,
        "restore": services.restore_runs,
    }

    @extend_schema(request=BulkChange, responses={200: BulkChanged})
    def post(self, request: Request) -> Response:
        """Archive, delete, restore or tag up to 1,000 runs: all of them, or none if one is refused."""
        body = sent(BulkChange, request)
        actor, ids = actor_of(request), list(dict.fromkeys(body["ids"]))
        if body["action"] == "tag":
            return Response({"changed": services.tag_runs(actor, ids, body.get("tags", {}))})
        return Response({"changed": self._verbs[body["action"]](actor, ids)})


class OneRun(APIView):
    @extend_schema(responses={200: OneRunOut})
    def get(self, request: Request, run_id: str) -> Response:
        """Read a run: its state, parameters, tags, lineage and the last value of each metric."""
        return Response(OneRunOut(queries.find_run(actor_of(request), run_id)).data)

    @extend_schema(request=RunChange, responses={200: OneRunOut})
    def patch(self, request: Request, run_id: str) -> Response:
        """Change a run. The state and the times of a job's run follow its job."""
        actor = actor_of(request)
        services.change_run(actor, queries.find_run(actor, run_id), _changes(actor, sent(RunChange, request)))
        return Response(OneRunOut(queries.find_run(actor, run_id)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, run_id: str) -> Response:
        """Delete a run and all below it; it can be restored until retention removes it."""
        actor = actor_of(request)
        services.delete_runs(actor, [queries.find_run(actor, run_id).id])
        return Response(status=204)


def _changes(actor: Actor, body: Mapping[str, Any]) -> dict[str, Any]:
    changes = dict(body)
    if changes.get("parent") is not None:
        changes["parent"] = queries.find_run(actor, changes["parent"])
    if "experiment_id" in changes:
        changes["experiment"] = queries.find_experiment(actor, changes.pop("experiment_id"))
    return changes


class RunRestore(APIView):
    @extend_schema(request=None, responses={200: OneRunOut})
    def post(self, request: Request, run_id: str) -> Response:
        """Restore a deleted run with the runs below that were deleted with it; or take it out of the archive."""
        actor = actor_of(request)
        services.restore_runs(actor, [queries.find_run(actor, run_id, deleted=True).id])
        return Response(OneRunOut(queries.find_run(actor, run_id)).data)


class RunFinish(APIView):
    @extend_schema(request=Finish, responses={200: OneRunOut})
    def post(self, request: Request, run_id: str) -> Response:
        """End a run without a job."""
        actor, body = actor_of(request), sent(Finish, request)
        services.finish_run(actor, queries.find_run(actor, run_id), body["state"], body.get("ended_ms"))
        return Response(OneRunOut(queries.find_run(actor, run_id)).data)
