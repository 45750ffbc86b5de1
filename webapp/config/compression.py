"""Compresses pages and JSON; a streamed download stays as it is."""

import secrets
from gzip import GzipFile
from io import BytesIO

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware, re_accepts_gzip
from django.utils.cache import patch_vary_headers

TEXT = (
    "text/",
    "application/json",
    "application/problem+json",
    "application/vnd.oai.openapi",
    "image/svg+xml",
)


LARGE = 200_000  # bytes, from which on a sixth more of them costs less than five times the time


class CompressText(GZipMiddleware):
    """Django's, which adds random bytes against BREACH. A stream keeps its length, which its reader counts by."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming or not response.headers.get("Content-Type", "").startswith(TEXT):
            return response
        if isinstance(response, HttpResponse) and len(response.content) >= LARGE:
            _compress_quickly(request, response)
        return super().process_response(request, response)


def _compress_quickly(request: HttpRequest, response: HttpResponse) -> None:
    if response.has_header("Content-Encoding") or not re_accepts_gzip.search(
        request.headers.get("Accept-Encoding", "")
    ):
        return
    compressed = BytesIO()
    name = "x" * secrets.randbelow(GZipMiddleware.max_random_bytes)  # against BREACH, as Django does
    with GzipFile(name, "wb", compresslevel=1, fileobj=compressed, mtime=0) as file:
        file.write(response.content)
    response.content = compressed.getvalue()
    response["Content-Encoding"], response["Content-Length"] = "gzip", str(len(response.content))
    patch_vary_headers(response, ("Accept-Encoding",))
    if response.get("ETag", "").startswith('"'):
        response["ETag"] = f"W/{response['ETag']}"
