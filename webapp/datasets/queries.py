from collections.abc import Iterable

from platform_core.errors import TrainmasterError
from platform_core.node.wanted import ArtifactReference
from webapp.artifacts import queries as artifacts
from webapp.datasets.models import DatasetSnapshot


def snapshot_reference(snapshot_id: str) -> ArtifactReference:
    snapshot = DatasetSnapshot.objects.filter(id=snapshot_id).first()
    if snapshot is None:
        raise TrainmasterError("not_found", what=f"dataset snapshot {snapshot_id}")
    return artifacts.reference(snapshot.manifest_id)


def names(snapshot_ids: Iterable[str]) -> dict[str, str]:
    """Snapshot id → "python-stdlib v1", in one query; unknown ids are left out."""
    rows = DatasetSnapshot.objects.filter(id__in=set(snapshot_ids)).values_list("id", "name", "version")
    return {key: f"{name} v{version}" for key, name, version in rows}


def versions(team: str, name: str) -> list[DatasetSnapshot]:
    """Newest first."""
    rows = DatasetSnapshot.objects.filter(team=team, name=name).select_related("manifest", "created_by")
    return list(rows.order_by("-version"))


def snapshots(teams: Iterable[str] | None) -> list[DatasetSnapshot]:
    rows = DatasetSnapshot.objects.select_related("manifest", "created_by").order_by("-created_ms")
    return list(rows if teams is None else rows.filter(team__in=list(teams)))


def snapshot(snapshot_id: str) -> DatasetSnapshot | None:
    return DatasetSnapshot.objects.select_related("manifest").filter(id=snapshot_id).first()
