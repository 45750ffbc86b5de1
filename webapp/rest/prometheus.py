"""/metrics for Prometheus: everything with the scraper's token, the teams a person may see with theirs."""

import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from rest_framework.authentication import (
    BaseAuthentication,
    get_authorization_header,
)
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.deployments import queries as deployments
from webapp.nodes import measures as nodes
from webapp.rest import platform_metrics
from webapp.rest.job_metrics import of_jobs

SCRAPER = "scraper"


class Scraper:
    """The caller that presents TRAINMASTER_METRICS_TOKEN; it has no account."""

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


@dataclass(frozen=True)
class Families(Collector):
    families: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


class PlainText(BaseRenderer):
    media_type, format = "text/plain", "txt"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return data if isinstance(data, bytes) else json.dumps(data).encode()


class Metrics(APIView):
    """Answers in the text format 0.0.4 whatever the Accept header says: every scraper reads it."""

    authentication_classes = (ScraperAuthentication, *APIView.authentication_classes)
    renderer_classes = (PlainText,)
    schema = None

    def perform_content_negotiation(self, request: HttpRequest, force: bool = False) -> tuple[Any, str]:
        return PlainText(), PlainText.media_type

    def get(self, request: Request) -> Response:
        teams = None if request.auth == SCRAPER else actor_of(request).sees
        families = (*deployments.metrics(teams), *platform_metrics.of_teams(teams), *of_jobs(teams))
        if teams is not None:
            return _answer(generate_latest(Families(families)))
        whole = Families((*families, *platform_metrics.of_platform()))
        return _answer("".join([generate_latest(whole).decode(), *nodes.exposed()]).encode())


def _answer(text: bytes) -> Response:
    return Response(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)
