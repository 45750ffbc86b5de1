"""What a job is for: that decides how it ends, and which measures say something about it."""

from __future__ import annotations

from enum import StrEnum


class JobKind(StrEnum):
    TRAINING = "training"
    BATCH = "batch"  # it ends like a training, and makes no steps: an evaluation, an export, a preparation of data
    SERVICE = "service"  # never ends by itself: no time limit, and a restart after every failure
