"""/metrics of the gateway's and the worker's own processes; what concerns the whole platform stands at the web's."""

from __future__ import annotations

import logging

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from trainmaster.process_metrics import Families, serve

log = logging.getLogger(__name__)


def expose(setting: str, listen: str, families: Families) -> None:
    """Raises ImproperlyConfigured where `listen` cannot be used; an empty one means not to expose any."""
    if not listen:
        return
    if not settings.METRICS_TOKEN:
        raise ImproperlyConfigured(
            f"{setting} needs TRAINMASTER_METRICS_TOKEN: without it nobody may read them."
        )
    try:
        server = serve(listen, settings.METRICS_TOKEN, families)
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{setting} is {listen}: {error}.") from error
    log.info("metrics of this process at %s", server.url)
