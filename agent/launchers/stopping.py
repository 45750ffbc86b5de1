"""The `stop` file: the one way to ask an attempt to end, seen by the script and by whoever watches it."""

from __future__ import annotations

import json

from agent.files import read_json, write_atomically
from agent.work_folder import WorkFolder


def write_stop(folder: WorkFolder, grace_seconds: int) -> None:
    """A later call can only shorten the grace."""
    earlier = read_json(folder.stop_file)
    if earlier is not None:
        grace_seconds = min(grace_seconds, int(earlier.get("grace_seconds", grace_seconds)))
    write_atomically(folder.stop_file, json.dumps({"grace_seconds": grace_seconds}).encode())
