"""What a job is for: that decides how it ends."""

from __future__ import annotations

from enum import StrEnum


class JobKind(StrEnum):
    TRAINING = "training"
    SERVICE = "service"  # never ends by itself: no time limit, and a restart after every failure
