"""One private PostgreSQL and Valkey for a test session, out of their wheels.

`provide()` is called by the __init__.py of the test packages that need them, so that it runs before any module there
imports a model, and not at all when only the core or the agent is tested.
"""

import atexit
import os
import secrets
import shutil
import socket
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import django

from tests.support.settings_environment import SETTINGS
from webapp.operations.embedded import Postgres, Valkey, running


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def provide() -> Postgres:
    """Starts both, sets the environment of the settings, and loads Django. The database may be stopped and started."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-test-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs under an account without rights and must pass
    # Stopping comes first, so it is registered last: atexit runs backwards.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    postgres = Postgres(
        folder / "postgres", free_port(), secrets.token_hex(8), folder / "postgres.log", durable=False
    )
    valkey = Valkey(folder / "valkey", free_port(), secrets.token_hex(8), folder / "valkey.log")
    stack = ExitStack()
    atexit.register(stack.close)
    stack.enter_context(running(postgres, valkey))
    os.environ |= {
        "DATABASE_URL": postgres.url,
        "REDIS_URL": valkey.url,
        "TRAINMASTER_STORE_URL": f"file://{folder}/store",
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        **SETTINGS,
    }
    django.setup()
    return postgres
