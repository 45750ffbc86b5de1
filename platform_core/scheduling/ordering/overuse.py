"""What a team has used beyond its share, and how much of that counts against a waiting job."""

from __future__ import annotations

from platform_core.cluster.snapshot import Snapshot

FORGIVEN_MS = 7 * 86_400_000  # the half-life of recorded use


def of_teams(snapshot: Snapshot) -> dict[tuple[str, str], float]:
    """(team, GPU type) → use beyond its share, in shares."""
    return {(team.team, team.gpu_type): max(0.0, team.usage_share - 1.0) for team in snapshot.teams}


def counts(waited_ms: int) -> float:
    """The part of it that counts against a job that has waited `waited_ms`."""
    return max(0.0, 1.0 - waited_ms / FORGIVEN_MS)
