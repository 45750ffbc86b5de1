"""A form that carries out one verb: back to the page with a word of success, or the page with the refusal."""

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from platform_core.errors import TrainmasterError

Refuse = Callable[[Mapping[str, str], int], HttpResponse]  # error code → sentence, HTTP status


def carry_out(
    request: HttpRequest, verb: Callable[[], object], done: str, back: HttpResponse, refuse: Refuse
) -> HttpResponse:
    """Raises not_allowed: whoever may not do this does not get the page either."""
    try:
        verb()
    except TrainmasterError as error:
        if error.code == "not_allowed":
            raise
        return refuse({error.code: error.sentence}, error.kind.http)
    messages.success(request, done)
    return back
