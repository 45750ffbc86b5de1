"""What a team has used beyond its share, and for how long that is held against a job that waits."""

from __future__ import annotations

from platform_core.cluster.snapshot import Snapshot

FORGIVEN_MS = 7 * 86_400_000  # as long as it takes until half of a use is forgotten


def of_teams(snapshot: Snapshot) -> dict[tuple[str, str], float]:
    """(team, GPU type) → whole shares used beyond its own."""
    return {(team.team, team.gpu_type): max(0.0, team.usage_share - 1.0) for team in snapshot.teams}


def counts(waited_ms: int) -> float:
    """The part of it that counts for a job that has waited so long."""
    return max(0.0, 1.0 - waited_ms / FORGIVEN_MS)
