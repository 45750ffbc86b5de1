from django.db import transaction

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import new_id, now_ms
from webapp.datasets.models import DatasetSnapshot
from webapp.events import services as events


def add_snapshot(actor: Actor, team: str, name: str, manifest_id: str, purpose: str) -> DatasetSnapshot:
    """The next version of a dataset; the same manifest and purpose again give the same snapshot."""
    permissions.require(actor, "dataset.create", team)
    if not artifacts.manifest_exists(manifest_id, team, "dataset"):
        raise TrainmasterError("not_found", what=f"dataset manifest {manifest_id} in team {team}")
    if not purpose:
        raise TrainmasterError(
            "request_invalid", what="purpose", why="say what the data may be used for, e.g. 'training'"
        )
    with transaction.atomic():
        earlier = (
            DatasetSnapshot.objects.select_for_update().filter(team=team, name=name).order_by("-version")
        )
        newest = earlier.first()
        if newest is not None and newest.manifest_id == manifest_id and newest.purpose == purpose:
            return newest
        snapshot = DatasetSnapshot.objects.create(
            id=new_id("ds"),
            team_id=team,
            name=name,
            version=newest.version + 1 if newest else 1,
            purpose=purpose,
            manifest_id=manifest_id,
            created_ms=now_ms(),
            created_by_id=accounts.user_key(actor.username),
        )
        events.record(
            "SnapshotRegistered", f"dataset:{snapshot.id}", actor=actor.name, team=team,
            cause=f"{name} version {snapshot.version} for {purpose}, {snapshot.manifest.files} files",
        )  # fmt: skip
        return snapshot
