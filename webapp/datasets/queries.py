from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, JSONObject

from platform_core.datasets import access
from platform_core.datasets.access import Grant, Terms, Use
from platform_core.datasets.changes import Changes, Mark, compare
from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Kind
from platform_core.node.wanted import ArtifactReference
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.datasets.models import APPROVED, DELETED, READY, AccessRequest, Dataset, DatasetSnapshot
from webapp.datasets.review import dropped as dropped
from webapp.datasets.review import item_of as item_of
from webapp.datasets.review import unreadable_of as unreadable_of
from webapp.recalls import queries as recalls


@dataclass(frozen=True, slots=True)
class Card:
    """What people say of a dataset."""

    team: str
    name: str
    owner: str = ""
    description: str = ""
    licence: str = ""
    tags: tuple[str, ...] = ()
    listed: bool = False
    follow_minutes: int = 0
    followed_ms: int = 0  # when its source was last looked at; 0: never
    follow_error: str = ""
    fresh_minutes: int = 0  # promised: so old at most is its newest version; 0: nothing is


def reference_for(snapshot_id: str, use: Use, in_place: bool = False) -> ArtifactReference:
    """Where the bytes of a version are; `in_place`: at its source, though the store has the same bytes as well.

    Raises request_invalid where this use is not approved (any more).
    """
    row = snapshot(snapshot_id)
    if row is None or row.manifest_id is None:
        raise TrainmasterError("not_found", what=f"dataset snapshot {snapshot_id}")
    if why := why_not(row, use):
        what = f"The use of dataset {row.name} version {row.version}"
        raise TrainmasterError("request_invalid", what=what, why=why)
    if in_place and row.source:
        return ArtifactReference(row.manifest_id, row.source)
    return artifacts.reference(row.manifest_id)


def manifests(snapshot_ids: Iterable[str]) -> dict[str, str]:
    """Version → its manifest, of those that have one."""
    rows = DatasetSnapshot.objects.filter(id__in=set(snapshot_ids), state=READY).exclude(manifest=None)
    return dict(rows.values_list("id", "manifest_id"))


def why_not(row: DatasetSnapshot, use: Use) -> str:
    """Why a job may not use this version; "" where it may."""
    if row.state == DELETED:
        return "it is deleted"
    if row.state != READY:
        return f"its registration is {row.state}" + (f": {row.error.rstrip('.')}" if row.error else "")
    if why := recalls.why(Kind.DATASET, row.id):
        return why
    terms = Terms(row.team_id, access.words(row.purpose), tuple(row.projects))
    return access.why_not(use, terms, _grants(row.team_id, row.name), now_ms())


def why_not_mounted(row: DatasetSnapshot) -> str:
    """Why a job cannot read this version where it lies; "" where it can."""
    url = row.source or artifacts.reference(row.manifest_id or "").source_url
    if not url.startswith("file://"):
        return f"it lies at {url.partition('://')[0]}://, which is no folder; leave it out, and it is copied"
    if ":" in urlsplit(url).path:
        return "the name of its folder has a colon, which no container engine takes; leave it out"
    if artifacts.is_in_store(url):
        return "it lies in the platform's store, where nobody but the platform may write; leave it out"
    return ""


def _grants(team: str, name: str) -> list[Grant]:
    rows = AccessRequest.objects.filter(dataset__team=team, dataset__name=name, state=APPROVED)
    return [Grant(row.team_id, row.project, row.purpose, row.expires_ms) for row in rows]


def names(snapshot_ids: Iterable[str]) -> dict[str, str]:
    """Snapshot id → "python-stdlib v1", in one query; unknown ids are left out."""
    rows = DatasetSnapshot.objects.filter(id__in=set(snapshot_ids)).values_list("id", "name", "version")
    return {key: f"{name} v{version}" for key, name, version in rows}


def exists(team: str, name: str) -> bool:
    return DatasetSnapshot.objects.filter(team=team, name=name).exists()


def versions(team: str, name: str) -> list[DatasetSnapshot]:
    """Newest first."""
    return list(_with_size().filter(team=team, name=name).order_by("-version"))


def version_times() -> dict[tuple[str, str], list[int]]:
    """(team, name) of each dataset → when its ready versions were made."""
    times: dict[tuple[str, str], list[int]] = {}
    rows = DatasetSnapshot.objects.filter(state=READY).values_list("team", "name", "created_ms")
    for team, name, created_ms in rows:
        times.setdefault((team, name), []).append(created_ms)
    return times


def superseded(before_ms: int) -> list[str]:
    """Versions of followed datasets that were made in place before then, and have a later one that is ready."""
    followed = Dataset.objects.filter(follow_minutes__gt=0, team=OuterRef("team"), name=OuterRef("name"))
    later = DatasetSnapshot.objects.filter(
        team=OuterRef("team"), name=OuterRef("name"), version__gt=OuterRef("version"), state=READY
    )
    rows = DatasetSnapshot.objects.filter(
        Exists(followed), Exists(later), created_ms__lt=before_ms, state__in=(READY, DELETED)
    )
    return list(rows.exclude(source="").order_by("created_ms", "id").values_list("id", flat=True))


def superseded_of(team: str, name: str, before_ms: int) -> list[str]:
    """Versions of one dataset that were made before then, and have a later one that is ready."""
    rows = DatasetSnapshot.objects.filter(team=team, name=name)
    newest = rows.filter(state=READY).order_by("-version").values_list("version", flat=True).first() or 0
    older = rows.filter(version__lt=newest, created_ms__lt=before_ms, state__in=(READY, DELETED))
    return list(older.order_by("created_ms", "id").values_list("id", flat=True))


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of a dataset that has versions, and a promise of how old the newest is at most."""

    team: str
    name: str
    fresh_minutes: int
    newest_ms: int
    error: str  # why the last look at its source made no version


def promised() -> list[Freshness]:
    times = version_times()
    rows = Dataset.objects.filter(fresh_minutes__gt=0).order_by("team", "name")
    return [
        Freshness(
            row.team_id, row.name, row.fresh_minutes, max(times[row.team_id, row.name]), row.follow_error
        )
        for row in rows
        if (row.team_id, row.name) in times
    ]


def snapshots(teams: Iterable[str] | None) -> list[DatasetSnapshot]:
    """Of these teams, and those that a grant in force lets them use; None is every team."""
    rows = _with_size().order_by("-created_ms")
    return list(rows if teams is None else rows.filter(_visible(list(teams))))


def _visible(teams: list[str]) -> Q:
    visible = Q(team__in=teams)
    for team, name in _granted(teams):
        visible |= Q(team=team, name=name)
    return visible


def _granted(teams: list[str]) -> set[tuple[str, str]]:
    rows = AccessRequest.objects.filter(_in_force(), team__in=teams)
    return set(rows.values_list("dataset__team", "dataset__name"))


def _in_force() -> Q:
    return Q(state=APPROVED) & (Q(expires_ms=0) | Q(expires_ms__gt=now_ms()))


def snapshot(snapshot_id: str) -> DatasetSnapshot | None:
    return _with_size().filter(id=snapshot_id).first()


def _with_size() -> QuerySet[DatasetSnapshot]:
    """Without the lists of files, which may have megabytes."""
    rows = DatasetSnapshot.objects.select_related("manifest", "created_by")
    return rows.defer("etags", "manifest__document", "manifest__etags")


def seen_snapshot(actor: Actor, snapshot_id: str) -> DatasetSnapshot:
    """Raises not_found for those who may not see it."""
    row = snapshot(snapshot_id)
    if row is None or not sees(actor, row.team_id, row.name):
        raise TrainmasterError("not_found", what=f"dataset snapshot {snapshot_id}")
    return row


def sees(actor: Actor, team: str, name: str) -> bool:
    """Whether the actor may see the versions and files: of their own team's, and where a grant is in force."""
    if permissions.may(actor, "dataset.view", team):
        return True
    mine = [own for own in actor.teams if permissions.may(actor, "dataset.view", own)]
    return (team, name) in _granted(mine)


def is_known_to(team: str, row: DatasetSnapshot) -> bool:
    """Whether the team may know of it: its own, one that is listed, or one that it was ever granted."""
    if row.team_id == team or card(row.team_id, row.name).listed:
        return True
    return AccessRequest.objects.filter(
        dataset__team=row.team_id, dataset__name=row.name, team=team, state=APPROVED
    ).exists()


def sees_card(actor: Actor, team: str, name: str) -> bool:
    """Whether the actor may know that there is such a dataset."""
    if not exists(team, name):
        return False
    return sees(actor, team, name) or card(team, name).listed


def sees_request(actor: Actor, row: AccessRequest) -> bool:
    return actor.is_admin or not {row.team_id, row.dataset.team_id}.isdisjoint(actor.teams)


def card(team: str, name: str) -> Card:
    row = Dataset.objects.select_related("owner").filter(team=team, name=name).first()
    return _card(row) if row is not None else Card(team, name)


def cards(teams: Iterable[str] | None) -> dict[tuple[str, str], Card]:
    """By team and name: of these teams, and what other teams have listed."""
    rows = Dataset.objects.select_related("owner")
    if teams is not None:
        rows = rows.filter(Q(team__in=list(teams)) | Q(listed=True))
    return {(row.team_id, row.name): _card(row) for row in rows}


def _card(row: Dataset) -> Card:
    owner = row.owner.username if row.owner else ""
    return Card(
        row.team_id, row.name, owner, row.description, row.licence, tuple(row.tags), row.listed,
        row.follow_minutes, row.followed_ms, row.follow_error, row.fresh_minutes,
    )  # fmt: skip


def requests(actor: Actor, team: str = "", name: str = "", limit: int = 200) -> list[AccessRequest]:
    """The newest first: of the actor's teams and for their datasets."""
    rows = AccessRequest.objects.select_related("dataset", "requested_by", "decided_by")
    if actor.sees is not None:
        rows = rows.filter(Q(team__in=actor.sees) | Q(dataset__team__in=actor.sees))
    if team:
        rows = rows.filter(dataset__team=team)
    if name:
        rows = rows.filter(dataset__name=name)
    return list(rows.order_by("-requested_ms", "id")[:limit])


def files(row: DatasetSnapshot) -> list[dict[str, Any]]:
    """Path, size and SHA-256 of each, by path; of a version that is not ready none."""
    return artifacts.file_list(row.manifest_id) if row.manifest_id and row.state == READY else []


def with_shard(row: DatasetSnapshot, path: str) -> list[DatasetSnapshot]:
    """This version, and those of the same dataset that have a file of the same content. Raises not_found."""
    digest = next((file["sha256"] for file in files(row) if file["path"] == path), None)
    if digest is None:
        raise TrainmasterError("not_found", what=f"file {path} in {row.name} version {row.version}")
    others = DatasetSnapshot.objects.filter(team=row.team_id, name=row.name).exclude(id=row.id)
    return [
        row,
        *(one for one in others.order_by("version") if any(file["sha256"] == digest for file in files(one))),
    ]


def matches(search: str, row: DatasetSnapshot, said: Card | None) -> bool:
    """Whether the text is in the name, the description or a tag, whatever the case of its letters."""
    texts = [row.name, *((said.description, *said.tags) if said is not None else ())]
    return any(search.lower() in text.lower() for text in texts)


def difference(before: DatasetSnapshot, after: DatasetSnapshot) -> Changes:
    """What differs between two versions, by content. Raises request_invalid where the files of one are not known."""
    for row in (before, after):
        if row.manifest_id is None:
            what = f"{row.name} version {row.version}"
            raise TrainmasterError(
                "request_invalid", what=what, why=f"it is {row.state} and has no list of files"
            )
    earlier, later = (
        {file["path"]: Mark(file["size"], file["sha256"]) for file in files(row)} for row in (before, after)
    )
    return compare(earlier, later)


def derivations(*, of: Iterable[str] = (), to: Iterable[str] = ()) -> list[tuple[str, str]]:
    """(base, version that shares its unchanged files): of these bases, and of those that came of a base."""
    rows = DatasetSnapshot.objects.filter(Q(base__in=list(of)) | Q(id__in=list(to), base__isnull=False))
    return list(rows.values_list("base_id", "id"))


def rows_of(snapshot_ids: Iterable[str]) -> list[DatasetSnapshot]:
    return list(DatasetSnapshot.objects.filter(id__in=list(snapshot_ids)).select_related("created_by"))


def origin() -> Subquery:
    """The JSON {project, owner} of the newest version whose files a manifest of a team is: the project for which alone
    it is approved, and the owner of the dataset."""
    rows = DatasetSnapshot.objects.filter(manifest=OuterRef("id"), team=OuterRef("teams"))
    owner = Dataset.objects.filter(team=OuterRef("team"), name=OuterRef("name")).values("owner__username")
    project = Case(When(projects__1__isnull=True, then=KeyTextTransform(0, "projects")))
    origins = rows.order_by("-created_ms").values(
        origin=JSONObject(project=project, owner=Coalesce(Subquery(owner), "created_by__username"))
    )
    return Subquery(origins[:1])
