"""Hints start the next scheduling round at once. A lost hint costs at most one interval."""

import logging
from typing import Any

from celery import current_app
from django.core.cache import cache
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
_ASKED = "scheduling:asked"


def tick() -> None:
    """Ask for a scheduling round as soon as this transaction has committed."""
    transaction.on_commit(_send)


def asked_by_signal(sender: Any, **kwargs: Any) -> None:
    """Nodes or quotas changed: waiting jobs may start."""
    tick()


def tick_begins() -> None:
    """A round is about to read the database: later changes need another round."""
    cache.delete(_ASKED)


def _send() -> None:
    try:
        if cache.add(
            _ASKED, 1, timeout=5
        ):  # one round already asked for and not begun is enough for everybody
            current_app.send_task("scheduling.tick", expires=10, retry=False)
    except (OperationalError, RedisError) as error:
        log.warning("the hint for a scheduling round was lost: %s", error)
