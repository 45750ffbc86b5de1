"""One request of an MLflow client: who asks, for which team, with which fields; and its answer or error in JSON."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.http.request import UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions, tokens
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base import problems
from webapp.mlflow.errors import MlflowError, invalid, missing, translated
from webapp.mlflow.fields import Field, body_of, parsed, query_of

log = logging.getLogger(__name__)
WORKSPACE = "X-MLFLOW-WORKSPACE"


class Call:
    """An authenticated request with the fields of its message."""

    def __init__(self, request: HttpRequest, actor: Actor, fields: dict[str, Any]) -> None:
        self.request, self.actor, self.fields = request, actor, fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @cached_property
    def team(self) -> str:
        """The team that new things belong to: of the header, else of the token."""
        wanted = self.request.headers.get(WORKSPACE, "")
        if wanted:
            known = accounts.teams([wanted]) if permissions.may(self.actor, "team.view", wanted) else ()
            if not known:
                raise missing(f"Workspace '{wanted[:60]}' not found")
            return wanted
        if self.actor.token_team:
            return self.actor.token_team
        raise invalid(
            f"This token opens every team: choose one with MLFLOW_WORKSPACE (the header {WORKSPACE})."
        )

    def sees(self, team: str) -> bool:
        """Whether this request may know of things of a team: a chosen workspace hides the others."""
        if not permissions.may(self.actor, "experiment.view", team):
            return False
        return (self.actor.token_team is None and WORKSPACE not in self.request.headers) or self.team == team


Handler = Callable[..., dict[str, Any] | HttpResponseBase]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of an address: the fields of its message and the function that answers it."""

    method: str
    path: str  # as Django writes it, below the prefix
    handler: Handler
    fields: Sequence[Field] = ()
    raw: bool = False  # the body is a file: only the query is read
    parsed: bool = True  # False: the handler reads the decoded body itself


def view_of(endpoints: Sequence[Endpoint]) -> Callable[..., HttpResponseBase]:
    """The view of one address with all its methods."""
    by_method = {endpoint.method: endpoint for endpoint in endpoints}

    @csrf_exempt
    def view(request: HttpRequest, **place: str) -> HttpResponseBase:
        try:
            endpoint = by_method.get("GET" if request.method == "HEAD" else str(request.method))
            if endpoint is None:
                return _not_this_method(request, by_method)
            actor = authenticated(request)
            answer = endpoint.handler(Call(request, actor, _fields(request, endpoint, place)), **place)
        except Exception as error:
            return response_of(request, error)
        return JsonResponse(answer) if isinstance(answer, dict) else answer

    return view


def authenticated(request: HttpRequest) -> Actor:
    """The actor of the bearer token. Raises UNAUTHENTICATED."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    token = tokens.find(text.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        sentence = (
            "The request has no valid token. Make one under Settings and set MLFLOW_TRACKING_TOKEN to it."
            if not text
            else "The token is unknown, expired or revoked. Make a new one under Settings."
        )
        raise MlflowError("UNAUTHENTICATED", sentence)
    request.user, request.auth = token.user, token  # type: ignore[attr-defined]
    return accounts.actor_of(request)


def _fields(request: HttpRequest, endpoint: Endpoint, place: dict[str, str]) -> dict[str, Any]:
    if not endpoint.parsed:
        return body_of(request)
    if endpoint.raw or request.method in ("GET", "HEAD"):
        given = query_of(request, endpoint.fields)
    else:
        given = body_of(request)
        if request.method == "DELETE" and not given:
            given = query_of(request, endpoint.fields)
    return parsed(given, endpoint.fields)


def response_of(request: HttpRequest, error: Exception) -> HttpResponseBase:
    if isinstance(error, MlflowError):
        response = error.response
        if error.code == "UNAUTHENTICATED":
            response["WWW-Authenticate"] = "Bearer"
        return response
    if isinstance(error, UnreadablePostError | RequestDataTooBig):
        return invalid(problems.document(error)["detail"]).response
    body = problems.document(error)
    if body["code"] == "internal":
        log.exception("unexpected error in %s", request.path, exc_info=error)
    known = error if isinstance(error, TrainmasterError) else TrainmasterError(body["code"], body["detail"])
    return translated(known, body["status"]).response


@csrf_exempt
def unknown(request: HttpRequest) -> HttpResponseBase:
    """An endpoint of MLflow that this server does not have; docs/reference/mlflow.md lists them."""
    sentence = f"This server has no {request.method} {request.path[:200]}; docs/reference/mlflow.md lists what it has."
    return MlflowError("ENDPOINT_NOT_FOUND", sentence).response


def _not_this_method(request: HttpRequest, by_method: dict[str, Endpoint]) -> HttpResponseBase:
    sentence = f"{request.method} is not possible here; use {', '.join(sorted(by_method))}"
    response = JsonResponse({"error_code": "ENDPOINT_NOT_FOUND", "message": sentence}, status=405)
    response["Allow"] = ", ".join(sorted(by_method))
    return response
