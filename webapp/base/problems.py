"""One error catalogue, three faces: the HTTP problem document (RFC 9457) and the page here, the gRPC status in rpc."""

import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from platform_core.errors import CATALOGUE, TrainmasterError
from platform_core.jobs.spec import SpecError
from platform_core.units import format_bytes

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


def document(error: Exception) -> dict[str, Any]:
    """The problem document of an error. What is not in the catalogue is internal, and says nothing of itself."""
    if isinstance(error, TrainmasterError):
        body = _body(error.code, error.sentence)
        if isinstance(error, SpecError):
            body["problems"] = [{"field": p.field, "sentence": p.sentence} for p in error.problems]
        return body
    if (away := _away(error)) is not None:
        return _body("unavailable", TrainmasterError("unavailable", what=away).sentence)
    if isinstance(error, Http404 | exceptions.NotFound):
        return _body("not_found", "There is nothing here, or you may not see it.")
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return _body("not_authenticated", str(error.detail))
    if isinstance(error, PermissionDenied | exceptions.PermissionDenied):
        return _body("not_allowed", str(error) or "You may not do this.")
    if isinstance(error, exceptions.ValidationError):
        problems = list(_problems(error.detail))
        body = _body("request_invalid", " ".join(f"{p['field']}: {p['sentence']}" for p in problems))
        return {**body, "problems": problems}
    if isinstance(error, exceptions.APIException):  # a malformed body, an unknown method or media type
        phrase = HTTPStatus(error.status_code).phrase
        return {
            **_body("request_invalid", str(error.detail)),
            "status": error.status_code,
            "title": phrase,
        }
    if isinstance(error, RequestDataTooBig):
        limit = format_bytes(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return _body("too_large", f"The request is too large; the limit is {limit}")
    if isinstance(error, SuspiciousOperation):
        return _body("request_invalid", "The request is not valid")
    return _body("internal", "Something went wrong on our side. It has been logged.")


def _away(error: Exception) -> str | None:
    """Which of the servers behind the platform does not answer, or not in time."""
    if isinstance(error, OperationalError | InterfaceError):
        return "The database"
    return "The cache" if isinstance(error, RedisError | BrokerError) else None


def _problems(detail: Any, field: str = "") -> Iterator[dict[str, str]]:
    """Field and sentence of each thing that a serializer found, however deep it lies."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _problems(inner, f"{field}.{name}" if field else str(name))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _problems(inner, field)
    else:
        yield {"field": field, "sentence": str(detail)}


def _body(code: str, detail: str) -> dict[str, Any]:
    kind = CATALOGUE[code]
    return {
        "type": f"/docs/errors#{code}",
        "title": kind.title,
        "status": kind.http,
        "code": code,
        "detail": detail,
    }


def rest_exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    body = document(error)
    if body["code"] == "internal":
        log.exception("unexpected error in %s", context["request"].path, exc_info=error)
    set_rollback()
    response = Response(body, status=body["status"], content_type=MEDIA_TYPE)
    if body["status"] == 401:
        response["WWW-Authenticate"] = "Bearer"
    return _with_wait(response, error)


Answer = TypeVar("Answer", bound=HttpResponse)


def _with_wait(response: Answer, error: Exception) -> Answer:
    """Says after how many seconds a refused one may come again, where that is known."""
    wait_s = error.numbers.get("retry_after_s") if isinstance(error, TrainmasterError) else None
    if wait_s is not None:
        response["Retry-After"] = str(wait_s)
    return response


def _has_nul(request: HttpRequest) -> bool:
    if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return True
    form = request.content_type == "application/x-www-form-urlencoded"
    return form and any("\0" in value for values in request.POST.lists() for value in values[1])


class ProblemMiddleware:
    """A domain error that a page did not handle becomes the error page with its sentence, or a toast for htmx."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _has_nul(request):
            # No name of anything has it, and the database refuses to look for it.
            why = "it has a character (NUL) that nothing here has"
            return self._answer(request, TrainmasterError("request_invalid", what="the request", why=why))
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if (away := _away(error)) is not None:
            log.error("%s: %s is away: %s", request.path, away, error)
        elif not isinstance(error, TrainmasterError):
            return None  # Django's own handling: 404 and 403 pages, a logged 500
        return self._answer(request, error)

    def _answer(self, request: HttpRequest, error: Exception) -> HttpResponse:
        body = document(error)
        if request.path.startswith("/api/"):
            return _with_wait(JsonResponse(body, status=body["status"], content_type=MEDIA_TYPE), error)
        if body["code"] == "unavailable":  # the frame of a page asks the database who looks at it
            return HttpResponse(body["detail"] + "\n", status=503, content_type="text/plain; charset=utf-8")
        return _with_wait(render(request, "problem.html", {"problem": body}, status=body["status"]), error)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith("/api/"):
        return JsonResponse(document(Http404()), status=404, content_type=MEDIA_TYPE)
    return render(request, "404.html", status=404)
