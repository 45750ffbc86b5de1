"""The production commands of the platform, once: `trainmaster up` starts them, docker/ must say the same."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from webapp import ROOT as ROOT  # the programs run here

WEB = (
    "uvicorn",
    "webapp.config.asgi:application",
    "--http",
    "webapp.base.http_server:BoundedHttp",
    "--timeout-graceful-shutdown",
    "3",
    "--no-access-log",
    "--no-proxy-headers",
)
# Its own process, so that the load of the endpoints and that of the pages do not meet.
ROUTER = (
    "uvicorn",
    "webapp.router.asgi:application",
    "--http",
    "webapp.base.http_server:BoundedHttp",  # httptools refuses requests that can be read in two ways
    "--timeout-graceful-shutdown",
    "20",
    "--no-access-log",
    "--no-proxy-headers",
)
CELERY = ("celery", "--quiet", "-A", "webapp.config")
ALONE = ("--pool", "solo", "--without-gossip", "--without-mingle")
# What the platform lives by, in two processes that wait for nobody but the database and Valkey.
SCHEDULER = (*CELERY, "worker", "--hostname", "scheduler@%h", "--queues", "scheduling", *ALONE)
COORDINATOR = (*CELERY, "worker", "--hostname", "coordinator@%h", "--queues", "coordination", *ALONE)
# The rest, which members can make slow: from each queue in turn, each task within a time of its own.
WORKER = (
    *CELERY,
    "worker",
    "--hostname",
    "worker@%h",
    "--queues",
    "members,notices,upkeep,sources,celery",
    "--concurrency",
    "3",
    "--without-gossip",
    "--without-mingle",
)
BEAT = (*CELERY, "beat", "--pidfile", "")
GATEWAY = ("python", "manage.py", "gateway")
AGENT = ("trainmaster", "agent")
# Just after MIGRATE, which has made the checks.
CREATE_ADMIN = ("python", "manage.py", "createsuperuser", "--noinput", "--skip-checks")
MIGRATE = ("python", "manage.py", "migrate", "--noinput")
# The pages of rest_framework are not used: the API answers in JSON only.
COLLECT = ("python", "manage.py", "collectstatic", "--noinput", "--clear", "--ignore", "rest_framework")


@dataclass(frozen=True)
class Program:
    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)  # beside what all programs share


def runnable(command: tuple[str, ...]) -> list[str]:
    """The command with its program taken from the environment that runs us, which need not be on the PATH."""
    folder = Path(sys.executable).parent
    return [str(folder / command[0]), *command[1:]]
