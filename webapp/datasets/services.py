"""Datasets and their versions: added from uploads or registered in place, described, and approved for uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction

from platform_core.datasets.access import words
from platform_core.errors import TrainmasterError
from platform_core.units import plural
from trainmaster.store.port import checked
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import new_id, now_ms
from webapp.datasets import hints, queries, sources
from webapp.datasets.access import decide, request_access, revoke
from webapp.datasets.hashing import LEASE_SECONDS, Batch, Hashed
from webapp.datasets.hashing import ended as hashed_registrations
from webapp.datasets.hashing import exchange as exchange_hashes
from webapp.datasets.hashing import set_helpers as set_hashers
from webapp.datasets.hashing import wanted_on as hashing_on
from webapp.datasets.hashing import worth_help as registrations_to_hash
from webapp.datasets.models import DELETED, LISTING, READY, Dataset, DatasetSnapshot
from webapp.datasets.registration import ask_for_check, forget_files, older_deleted, resume, subject_of
from webapp.datasets.review import decide as review
from webapp.datasets.review import set_aside
from webapp.events import services as events

__all__ = [
    "LEASE_SECONDS",
    "Batch",
    "Hashed",
    "add_snapshot",
    "approve_for",
    "ask_for_check",
    "decide",
    "delete_version",
    "describe",
    "exchange_hashes",
    "forget_versions",
    "hashed_registrations",
    "hashing_on",
    "register_source",
    "registrations_to_hash",
    "request_access",
    "resume",
    "review",
    "revoke",
    "set_aside",
    "set_hashers",
]

_NAME = re.compile(r"[^/\x00-\x1f\x7f]{1,120}")
SHOWN_READERS = 3  # more are counted
LEAST_FOLLOW_MINUTES, MOST_FOLLOW_MINUTES = 5, 7 * 24 * 60
MOST_FRESH_MINUTES = 366 * 24 * 60
MOST_TAGS, LONGEST_TAG, LONGEST_DESCRIPTION, LONGEST_LICENCE, MOST_PATHS = 50, 60, 20_000, 120, 10_000


def add_snapshot(
    actor: Actor, team: str, name: str, manifest_id: str, purpose: str, projects: Sequence[str] = ()
) -> DatasetSnapshot:
    """The next version of a dataset; the same manifest and terms again give the same snapshot."""
    permissions.require(actor, "dataset.create", team)
    if not artifacts.manifest_exists(manifest_id, team, "dataset"):
        raise TrainmasterError("not_found", what=f"dataset manifest {manifest_id} in team {team}")
    _check_purpose(purpose)
    with transaction.atomic():
        newest = _newest(team, name)
        terms = (manifest_id, purpose, list(projects))
        if newest is not None and (newest.manifest_id, newest.purpose, newest.projects) == terms:
            return newest
        snapshot = _next_version(actor, team, name, newest, purpose, projects)
        snapshot.manifest_id = manifest_id
        snapshot.save()
        manifest = artifacts.find(manifest_id)
        events.record(
            "SnapshotRegistered", subject_of(snapshot), actor=actor.name, team=team,
            cause=f"{name} version {snapshot.version} for {purpose}, {manifest.files if manifest else 0} files",
        )  # fmt: skip
        return snapshot


def register_source(
    actor: Actor,
    team: str,
    name: str,
    source_url: str,
    purpose: str,
    projects: Sequence[str] = (),
    paths: Sequence[str] = (),
    *,
    besides_deleted: bool = False,
) -> DatasetSnapshot:
    """The next version of a dataset from files that stay where they lie. They are listed and hashed in the background.

    The same source again makes a version that shares the files that have not changed. `besides_deleted`: none where the
    source is as in the version that was deleted last.
    """
    permissions.require(actor, "dataset.create", team)
    _check_purpose(purpose)
    source_url = sources.check(source_url)
    if len(paths) > MOST_PATHS:
        raise TrainmasterError("too_large", what="paths", size=len(paths), limit=MOST_PATHS)
    for path in paths:
        checked(path)
    if source_url.startswith("http") and not paths:
        why = "a web server cannot be listed; name the files below the address as paths"
        raise TrainmasterError("request_invalid", what="paths", why=why)
    with transaction.atomic():
        newest = _newest(team, name)
        snapshot = _next_version(actor, team, name, newest, purpose, projects)
        snapshot.state, snapshot.source, snapshot.paths = LISTING, source_url, sorted(set(paths))
        snapshot.base = (
            DatasetSnapshot.objects.filter(
                team=team, name=name, source=source_url, state__in=[READY, *([DELETED] * besides_deleted)]
            )
            .exclude(manifest=None)
            .order_by("-version")
            .first()
        )
        snapshot.stepped_ms = now_ms()
        snapshot.save()
        hints.register(snapshot.id, snapshot.step)
    return snapshot


def describe(actor: Actor, team: str, name: str, **said: Any) -> Dataset:
    """Changes what people say of a dataset: description, licence, tags, owner, listed, how often its source is looked
    at (`follow_minutes`), and how old its newest version is at most (`fresh_minutes`). Others stay as they are."""
    permissions.require(actor, "dataset.edit", team, what=f"dataset {team}/{name}")
    if not queries.exists(team, name):
        raise TrainmasterError("not_found", what=f"dataset {team}/{name}")
    with transaction.atomic():
        row = _card(team, name)
        if "owner" in said or "listed" in said:  # these decide who approves, and who may ask
            permissions.require(actor, "dataset.approve", team, owner=row.owner.username if row.owner else "")
        if "owner" in said:
            row.owner_id = _member(team, said["owner"])
        if "tags" in said:
            row.tags = _tags(said["tags"])
        for field, limit in (("description", LONGEST_DESCRIPTION), ("licence", LONGEST_LICENCE)):
            if field in said:
                setattr(row, field, _limited(field, said[field], limit))
        row.listed = bool(said.get("listed", row.listed))
        if "follow_minutes" in said:
            row.follow_minutes = _follow_minutes(team, name, int(said["follow_minutes"]))
            row.follow_error = ""
        if "fresh_minutes" in said:
            row.fresh_minutes = _fresh_minutes(int(said["fresh_minutes"]))
        row.save()
        events.record(
            "DatasetDescribed",
            f"dataset:{team}/{name}",
            actor=actor.name,
            team=team,
            cause=", ".join(sorted(said)),
        )
    return row


def approve_for(
    actor: Actor, snapshot: DatasetSnapshot, purpose: str, projects: Sequence[str]
) -> DatasetSnapshot:
    """States the purposes and projects that a version is approved for, in place of those before."""
    card = queries.card(snapshot.team_id, snapshot.name)
    permissions.require(actor, "dataset.approve", snapshot.team_id, owner=card.owner)
    _check_purpose(purpose)
    with transaction.atomic():
        row = DatasetSnapshot.objects.select_for_update().get(id=snapshot.id)
        before = _terms(row)
        row.purpose, row.projects = purpose, list(projects)
        row.save(update_fields=["purpose", "projects"])
        events.record(
            "DatasetApproved", subject_of(row), actor=actor.name, team=row.team_id,
            cause=f"{row.name} version {row.version}: {before} → {_terms(row)}",
        )  # fmt: skip
    return row


def delete_version(actor: Actor, snapshot: DatasetSnapshot, readers: Callable[[str], Sequence[str]]) -> None:
    """Nobody can begin from it any more, and its files are left over where nothing else refers to them. Raises
    dataset_in_use while `readers` names somebody who reads the version."""
    card = queries.card(snapshot.team_id, snapshot.name)
    permissions.require(actor, "dataset.delete", snapshot.team_id, owner=card.owner)
    with transaction.atomic():
        row = DatasetSnapshot.objects.select_for_update().get(id=snapshot.id)
        if row.state == DELETED:
            return
        if reading := readers(row.id):
            names = plural(len(reading), "job") if len(reading) > SHOWN_READERS else ", ".join(reading)
            raise TrainmasterError("dataset_in_use", name=row.name, version=row.version, jobs=names)
        row.state, row.error = DELETED, ""
        row.save(update_fields=["state", "error"])
        row.sources.all().delete()
        if not row.source or _has_later(row):
            forget_files(row)
        else:  # kept until the next version, so that whoever follows the source does not bring these files again
            for older in older_deleted(row):
                forget_files(older)
        events.record(
            "SnapshotDeleted", subject_of(row), actor=actor.name, team=row.team_id,
            cause=f"{row.name} version {row.version}",
        )  # fmt: skip


@transaction.atomic
def forget_versions(snapshot_ids: Sequence[str], why: str) -> int:
    """Versions that nobody uses. Nothing of them is left but the event, which says why."""
    rows = DatasetSnapshot.objects.select_for_update().filter(id__in=list(snapshot_ids))
    for row in rows:
        forget_files(row)
        events.record(
            "SnapshotDeleted", subject_of(row), actor="system", team=row.team_id,
            cause=f"{row.name} version {row.version}, {why}",
        )  # fmt: skip
        row.delete()
    return len(rows)


def _has_later(row: DatasetSnapshot) -> bool:
    """Whether a later version of the same source is ready."""
    same = DatasetSnapshot.objects.filter(team=row.team_id, name=row.name, source=row.source, state=READY)
    return same.filter(version__gt=row.version).exists()


def _terms(row: DatasetSnapshot) -> str:
    return f"{row.purpose} of {', '.join(row.projects) or 'every project'}"


def _newest(team: str, name: str) -> DatasetSnapshot | None:
    """Locked, so that two versions at once get two numbers."""
    if not _NAME.fullmatch(name):
        raise TrainmasterError(
            "request_invalid", what="name", why="it has 1 to 120 characters, and no / in it"
        )
    _card(team, name)
    return DatasetSnapshot.objects.filter(team=team, name=name).order_by("-version").first()


def _card(team: str, name: str) -> Dataset:
    """Locked until the caller's transaction ends."""
    Dataset.objects.get_or_create(team_id=team, name=name)
    return Dataset.objects.select_for_update(of=("self",)).select_related("owner").get(team=team, name=name)


def _next_version(
    actor: Actor, team: str, name: str, newest: DatasetSnapshot | None, purpose: str, projects: Sequence[str]
) -> DatasetSnapshot:
    creator = accounts.user_key(actor.username)
    if newest is None:
        Dataset.objects.filter(team=team, name=name, owner=None).update(owner=creator)
    return DatasetSnapshot(
        id=new_id("ds"),
        team_id=team,
        name=name,
        version=newest.version + 1 if newest else 1,
        purpose=purpose,
        projects=list(projects),
        created_ms=now_ms(),
        created_by_id=creator,
    )


def _check_purpose(purpose: str) -> None:
    if not words(purpose):
        raise TrainmasterError(
            "request_invalid", what="purpose", why="say what the data may be used for, e.g. 'training'"
        )


def _member(team: str, username: str) -> int:
    if username not in accounts.usernames_of(team):
        raise TrainmasterError("request_invalid", what="owner", why=f"{username!r} is not in team {team}")
    return accounts.user_key(username)


def _follow_minutes(team: str, name: str, minutes: int) -> int:
    what = "follow_minutes"
    if minutes and not LEAST_FOLLOW_MINUTES <= minutes <= MOST_FOLLOW_MINUTES:
        why = f"it is {minutes}; it must be 0 or {LEAST_FOLLOW_MINUTES} to {MOST_FOLLOW_MINUTES}"
        raise TrainmasterError("request_invalid", what=what, why=why)
    followed = (
        DatasetSnapshot.objects.filter(team=team, name=name).exclude(source="").order_by("-version").first()
    )
    if minutes and followed is None:
        why = "no version of it was registered in place, so there is no source to look at"
        raise TrainmasterError("request_invalid", what=what, why=why)
    return minutes


def _fresh_minutes(minutes: int) -> int:
    if not 0 <= minutes <= MOST_FRESH_MINUTES:
        why = f"it is {minutes}; it must be 0 to {MOST_FRESH_MINUTES}"
        raise TrainmasterError("request_invalid", what="fresh_minutes", why=why)
    return minutes


def _tags(tags: Sequence[str]) -> list[str]:
    if len(tags) > MOST_TAGS:
        raise TrainmasterError("too_large", what="tags", size=len(tags), limit=MOST_TAGS)
    return sorted({_limited("a tag", tag.strip(), LONGEST_TAG) for tag in tags if tag.strip()})


def _limited(what: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise TrainmasterError("too_large", what=what, size=f"{len(text)} characters", limit=limit)
    return text
