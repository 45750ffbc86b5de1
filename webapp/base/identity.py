"""Where the shell gets what the core may not make: ids and the time."""

import os
import time

from platform_core import ids


def new_id(prefix: str) -> str:
    """A fresh id such as job-3f9k2v8m1q0x7w5t; see platform_core.ids for the prefixes."""
    return ids.encode(prefix, os.urandom(10))


def new_run_id() -> str:
    """A fresh id of a run without a job: 32 hexadecimal digits, as MLflow clients expect them."""
    return os.urandom(16).hex()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
