"""Where spans are sent: the standard variables of OpenTelemetry's exporters, checked at the start."""

from __future__ import annotations

import urllib.parse

from django.core.exceptions import ImproperlyConfigured


def otlp(endpoint: str, traces_endpoint: str, headers: str) -> tuple[str, dict[str, str]]:
    """The address for spans ("" for none) and the headers of each request."""
    address = traces_endpoint or (f"{endpoint.rstrip('/')}/v1/traces" if endpoint else "")
    parts = urllib.parse.urlsplit(address)
    if address and (parts.scheme not in {"http", "https"} or not parts.hostname):
        name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" if traces_endpoint else "OTEL_EXPORTER_OTLP_ENDPOINT"
        raise ImproperlyConfigured(
            f"{name} is {traces_endpoint or endpoint!r}; it must be an address such as http://collector:4318."
        )
    return address, dict(_pair(text) for text in headers.split(",") if text.strip())


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # its value may be a secret: it is not shown
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_HEADERS has an entry without a name and a value; write name=value,name=value."
        )
    return urllib.parse.unquote(name.strip()).lower(), urllib.parse.unquote(value.strip())
