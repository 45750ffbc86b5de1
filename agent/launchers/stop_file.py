"""The `stop` file: the one way to ask an attempt to end, seen by the script and by whoever watches it.

It lies in the job's folder, and the agent may be root: nothing here follows a link that the job has put in its place.
"""

from __future__ import annotations

import contextlib
import json
import os

from agent.launchers.shim import read_stop
from agent.work_folder import WorkFolder

_NEW = ".stop.new"


def write_stop(folder: WorkFolder, grace_seconds: int) -> None:
    """A later call can only shorten the grace."""
    grace = min(float(grace_seconds), read_stop(folder.path))
    directory = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(_NEW, flags, 0o644, dir_fd=directory), "w") as file:
            json.dump({"grace_seconds": grace}, file)
        os.replace(_NEW, folder.stop_file.name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)
