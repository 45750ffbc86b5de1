"""What a process of a job with roles is told of the others."""

from __future__ import annotations

import json

from platform_core.errors import TrainmasterError
from trainmaster.environment import role_environment


def addresses(role: str) -> list[tuple[str, int]]:
    """Host and port of each process of the role, in order."""
    places = json.loads(role_environment().addresses or "{}").get(role)
    if not places:
        why = f"this job has no role {role}; the roles of a job file name it"
        raise TrainmasterError("request_invalid", what="TRAINMASTER_ROLES", why=why)
    parts = (place.rpartition(":") for place in places)
    return [(host.strip("[]"), int(port)) for host, _, port in parts]


def index() -> int:
    """Which of the processes of its role this one is, from 0."""
    return role_environment().index
