"""Logging of every process of the control plane, the lines of its libraries included."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PLAIN = "%(levelname)s %(name)s: %(message)s"
# What the arguments of each process have and those of the others do not.
PROCESSES = {
    "webapp.config.asgi:application": "web", "webapp.router.asgi:application": "router",
    "scheduler@%h": "scheduler", "coordinator@%h": "coordinator", "worker": "worker", "beat": "beat",
    "gateway": "gateway",
}  # fmt: skip


def process_name(arguments: Sequence[str]) -> str:
    """ "web", "router", "scheduler" and so on; of a command of manage.py its name."""
    for argument, name in PROCESSES.items():
        if argument in arguments[1:]:
            return name
    return arguments[1] if len(arguments) > 1 else Path(arguments[0]).name if arguments else "python"


def logging_settings(log_format: str, level: str) -> dict[str, Any]:
    logging.captureWarnings(True)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": "trainmaster.structured_logs.formatter", "log_format": log_format,
                "process": process_name(sys.argv), "plain": PLAIN,
            },
        },
        "handlers": {"console": {"class": "trainmaster.repeated_logs.CountingHandler", "formatter": "lines"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "httpx": {"level": "WARNING"},
            # A clock tick every two seconds is no news; that a task failed is.
            "celery": {"level": "WARNING"},
            # It brings a handler of its own.
            "uvicorn": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.error": {"handlers": [], "propagate": True},
            # Addresses may hold secrets; requests that change something are logged by webapp.base.tracing.
            "uvicorn.access": {"handlers": [], "propagate": False},
            # Anybody may ask for any host name; the answer says so, and a traceback for each is noise.
            "django.security.DisallowedHost": {"handlers": [], "propagate": False},
        },
    }  # fmt: skip
