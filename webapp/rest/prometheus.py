"""/metrics for Prometheus: all of the platform by the scraper's token, what a person may see by theirs."""

import hmac
import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.authentication import (
    BaseAuthentication,
    get_authorization_header,
)
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.monitoring.exposition import CONTENT_TYPE, Family, Kind, Sample, text
from webapp.accounts import mailing
from webapp.accounts.queries import actor_of
from webapp.deployments import queries as deployments

SCRAPER = "scraper"


class Scraper:
    """Whoever has TRAINMASTER_METRICS_TOKEN; nobody's account."""

    is_authenticated = is_active = True


class ScraperAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Scraper, str] | None:
        expected = settings.METRICS_TOKEN
        given = get_authorization_header(request)
        if expected and hmac.compare_digest(given, f"Bearer {expected}".encode()):
            return Scraper(), SCRAPER
        return None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PlainText(BaseRenderer):
    media_type, format = "text/plain", "txt"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return (data if isinstance(data, str) else json.dumps(data)).encode()


class Metrics(APIView):
    """Whatever a scraper says that it accepts: it gets the text format, which all of them read."""

    authentication_classes = (ScraperAuthentication, *APIView.authentication_classes)
    renderer_classes = (PlainText,)
    schema = None

    def perform_content_negotiation(self, request: HttpRequest, force: bool = False) -> tuple[Any, str]:
        return PlainText(), PlainText.media_type

    def get(self, request: Request) -> Response:
        teams = None if request.auth == SCRAPER else actor_of(request).sees
        families = deployments.metrics(teams)
        if teams is None:
            families += (_mails(),)
        return Response(text(families), content_type=CONTENT_TYPE)


def _mails() -> Family:
    waits = "Mails that no server has taken yet."
    return Family("trainmaster_mails_waiting", waits, Kind.GAUGE, (Sample(mailing.waiting()),))
