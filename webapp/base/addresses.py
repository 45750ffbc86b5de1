"""Addresses have a limit, so that whatever reads a path or a query reads little."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

from platform_core.addresses import check_address
from platform_core.errors import TrainmasterError
from webapp.base.problems import MEDIA_TYPE, document


class AddressMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            check_address(request.path, request.META.get("QUERY_STRING", ""))
        except TrainmasterError as error:
            return JsonResponse(document(error), status=error.kind.http, content_type=MEDIA_TYPE)
        return self.get_response(request)
