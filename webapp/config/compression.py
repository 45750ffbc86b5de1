"""Compresses pages and JSON; a streamed download stays as it is."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

TEXT = (
    "text/",
    "application/json",
    "application/problem+json",
    "application/vnd.oai.openapi",
    "image/svg+xml",
)


class CompressText(GZipMiddleware):
    """Django's, which adds random bytes against BREACH. A stream keeps its length, which its reader counts by."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming or not response.headers.get("Content-Type", "").startswith(TEXT):
            return response
        return super().process_response(request, response)
