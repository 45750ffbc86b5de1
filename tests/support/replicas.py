"""Other processes of the platform beside the test, on the test's own database: several leaders, one that is killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def another_process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """Python with these arguments; killed at the end. Its leases are short: a killed leader is soon replaced."""
    this = connection.settings_dict
    url = f"postgresql://{this['USER']}:{this['PASSWORD']}@{this['HOST']}:{this['PORT']}/{this['NAME']}"
    environment = {**os.environ, "DATABASE_URL": url, "TRAINMASTER_LEASE_SECONDS": "3"}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
