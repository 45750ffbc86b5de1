"""The `stop` file: the one way to ask an attempt to end, seen by the script and by whoever watches it.

It lies in the job's folder, and the agent may be root: nothing here follows a link that the job has put in its place.
"""

from __future__ import annotations

import json

from agent.job_files import JobPath
from agent.launchers.shim import read_stop
from agent.work_folder import WorkFolder


def write_stop(folder: WorkFolder, grace_seconds: int) -> None:
    """A later call can only shorten the grace."""
    grace = min(float(grace_seconds), read_stop(folder.path))
    stop_file = JobPath(folder.path, folder.stop_file.name)
    stop_file.replace(json.dumps({"grace_seconds": grace}).encode())
