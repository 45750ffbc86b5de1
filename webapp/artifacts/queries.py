from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache, reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db.models import (
    Count,
    Exists,
    Expression,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
)  # fmt: skip
from django.db.models.functions import Cast, Coalesce, Greatest, JSONObject

from platform_core.distribution.content.address import Address
from platform_core.distribution.content.layout import is_by_digest
from platform_core.distribution.content.manifest import FilePart, Manifest, from_document, split
from platform_core.errors import TrainmasterError
from platform_core.node.wanted import ArtifactReference
from platform_core.storage import sharing
from platform_core.storage.holdings import Age, Holding
from platform_core.units import format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.address import located
from webapp.artifacts import models
from webapp.base.ages import age

# What is refused beyond its limit. Of checkpoints no save is: their job would be lost; new jobs are.
LIMITED_KINDS = ("code", "dataset", "model", "checkpoint", "run files")
_OWN = F("total_bytes") - F("shared_bytes")
REMEDY = "Delete what nobody needs, or let an operator raise the limit on the storage page"


def manifest_exists(manifest_id: str, team: str, kind: str) -> bool:
    return models.Manifest.objects.filter(id=manifest_id, teams=team, kind=kind).exists()


def paths(manifest_id: str) -> frozenset[str]:
    """Of its files."""
    return frozenset(entry.path for entry in manifest(manifest_id).files)


def find(manifest_id: str) -> models.Manifest | None:
    return models.Manifest.objects.filter(id=manifest_id).first()


def manifest(manifest_id: str) -> Manifest:
    """The core's value. Raises not_found."""
    row = find(manifest_id)
    if row is None:
        raise TrainmasterError("not_found", what=f"manifest {manifest_id}")
    return from_document(row.document)


@lru_cache(maxsize=4)
def manifest_json(manifest_id: str) -> bytes:
    """As the database writes it; a thousand nodes may ask for the same one. It never changes, so it may be kept."""
    rows = models.Manifest.objects.filter(id=manifest_id).annotate(text=Cast("document", TextField()))
    text = rows.values_list("text", flat=True).first()
    if text is None:
        raise TrainmasterError("not_found", what=f"manifest {manifest_id}")
    return str(text).encode()


def reference(manifest_id: str) -> ArtifactReference:
    """Without reading the manifest itself, which may have megabytes."""
    known = references([manifest_id]).get(manifest_id)
    if known is None:
        raise TrainmasterError("not_found", what=f"manifest {manifest_id}")
    return known


def references(manifest_ids: Iterable[str]) -> dict[str, ArtifactReference]:
    """By id, of those that there are."""
    rows = models.Manifest.objects.filter(id__in=set(manifest_ids)).values_list("id", "source_url", "etags")
    return {key: ArtifactReference(key, url, tuple(etags)) for key, url, etags in rows}


def digests_at(url: str, moved: bool = True, besides: Iterable[str] = ()) -> Iterator[dict[str, int]]:
    """Digest → bytes of the files of each manifest that lie at this URL, oldest first; with `moved` also of those that
    lay there and may still be read there."""
    here = Q(source_url=url) | (Q(moved_from=url) if moved else Q())
    rows = models.Manifest.objects.filter(here).exclude(id__in=besides).order_by("created_ms", "id")
    for files in rows.values_list("document__files", flat=True).iterator(chunk_size=10):
        yield {entry["sha256"]: entry["size"] for entry in files}


def freed_by(manifest_ids: Collection[str]) -> int:
    """Bytes that leave the store with these manifests: of files that no other has at the same place."""
    places: dict[str, dict[str, int]] = {}
    freed = 0
    rows = models.Manifest.objects.filter(id__in=manifest_ids).exclude(source_url="")
    for url, total, files in rows.values_list("source_url", "total_bytes", "document__files"):
        if is_by_digest(url):
            places.setdefault(url, {}).update({entry["sha256"]: entry["size"] for entry in files})
        else:
            freed += total
    for url, sizes in places.items():
        gone = sharing.unreferenced(sizes, digests_at(url, besides=manifest_ids))
        freed += sum(sizes[digest] for digest in gone)
    return freed


def digests_on_their_way(url: str) -> list[str]:
    """Of the files of uploads that are not complete, and will lie there."""
    rows = models.UploadFile.objects.filter(upload__source_url=url).exclude(sha256="")
    return list(rows.values_list("sha256", flat=True))


def received(upload_id: str) -> dict[str, dict[str, Any]]:
    """Path → sha256 and size of the files that need not be sent again."""
    rows = models.UploadFile.objects.filter(upload=upload_id, writing_ms=None).order_by("path")
    return {
        row["path"]: {"sha256": row["sha256"], "size": row["size"]}
        for row in rows.values("path", "sha256", "size")
    }


def file_list(manifest_id: str) -> list[dict[str, Any]]:
    """Path, size and SHA-256 of the files of this manifest, without its chunks."""
    rows = models.Manifest.objects.filter(id=manifest_id).values_list("document__files", flat=True)
    return list(rows.first() or [])


@lru_cache(maxsize=4)
def file_parts(manifest_id: str) -> dict[str, FilePart]:
    """Its files by SHA-256. It never changes, and an upload asks again for each thousand of its files."""
    return {part.entry.sha256: part for part in split(manifest(manifest_id))}


def is_source(url: str) -> bool:
    """Whether files of a manifest lie at this URL or below it, or lay there and may still be read there."""
    below = Q(source_url__startswith=f"{url}/") | Q(moved_from__startswith=f"{url}/")
    rows = models.Manifest.objects.filter(Q(source_url=url) | Q(moved_from=url) | below)
    return rows.exists()


def path_in_store(url: str) -> str:
    """Where below the platform's store this lies. Raises request_invalid for what lies elsewhere, links followed."""
    place = located(url)
    return "/".join(place.parts[len(store_of(url).parts) :])


def opened(url: str) -> Store:
    """The files of a manifest that the platform keeps, hot or cold. Raises request_invalid for what lies elsewhere."""
    store_of(url)
    return open_store(url)


def store_of(url: str) -> Address:
    """Which of the platform's stores this lies in. Raises request_invalid for what lies elsewhere, links followed."""
    place = located(url)
    for store in stores():
        if place != store and place.is_within(store):
            return store
    raise TrainmasterError("request_invalid", what=str(place), why="it does not lie in the platform's store")


def is_in_store(url: str) -> bool:
    return any(located(url).is_within(store) for store in stores())


def stores() -> list[Address]:
    """The platform's own: the hot store, and the cold one where there is one."""
    return list(map(located, store_urls()))


def store_urls() -> list[str]:
    return [store for store in (settings.STORE_URL, settings.COLD_STORE_URL) if store]


def bundles(teams: Iterable[str] | None, limit: int = 50) -> list[models.Upload]:
    """Newest complete code uploads, to choose from in the form."""
    rows = models.Upload.objects.filter(kind="code", manifest__isnull=False).order_by("-created_ms")
    return list((rows if teams is None else rows.filter(team__in=list(teams)))[:limit])


def names(manifest_ids: Iterable[str], teams: Iterable[str] | None) -> dict[str, str]:
    """Manifest id → the name that one of these teams gave it when it was uploaded last; None means every team.

    In one query. Manifests without a named upload are left out.
    """
    rows = (
        models.Upload.objects.filter(manifest__in=set(manifest_ids)).exclude(name="").order_by("created_ms")
    )
    if teams is not None:
        rows = rows.filter(team__in=list(teams))
    return dict(rows.values_list("manifest_id", "name"))


def teams_of(manifest_ids: Iterable[str]) -> list[tuple[str, str, int]]:
    """(manifest, a team that has sent these bytes, when they were first registered)."""
    rows = models.Manifest.objects.filter(id__in=set(manifest_ids)).exclude(teams=None)
    return list(rows.order_by("id", "teams").values_list("id", "teams", "created_ms"))


def upload(upload_id: str) -> models.Upload | None:
    return models.Upload.objects.select_related("user").filter(id=upload_id).first()


def resumable(username: str, team: str, kind: str, name: str) -> models.Upload | None:
    """The newest upload that this person began and that is not complete."""
    rows = models.Upload.objects.filter(
        user__username=username, team=team, kind=kind, name=name, manifest=None
    )
    return rows.order_by("-created_ms", "-id").first()


def referenced(manifest_ids: Iterable[str], besides: str = "") -> set[str]:
    """Which of these manifests something refers to, apart from rows of the model `besides` ("app.Model")."""
    ids = list(manifest_ids)
    first, *others = (
        relation.related_model._default_manager.filter(**{f"{relation.field.attname}__in": ids})
        .order_by()
        .values_list(relation.field.attname, flat=True)
        for relation in models.Manifest._meta.related_objects
        if relation.related_model._meta.label != besides
    )
    return set(first.union(*others))


def uploaded_bytes() -> dict[str, int]:
    """Team → bytes of its uploads, which count against its limit."""
    rows = models.Upload.objects.order_by().values_list("team").annotate(bytes=Sum("bytes"))
    return {team: size or 0 for team, size in rows}


def stored(origin: Expression) -> list[Holding]:
    """What lies in the platform's store; what several teams sent counts for each.

    `origin` is the JSON {project, owner} of a manifest and a team, or null: then its owner is who uploaded it last.
    Uploads that are not complete are of the kind "upload".
    """
    sent = models.Upload.objects.filter(manifest=OuterRef("id"), team=OuterRef("teams"))
    uploader = sent.order_by("-created_ms").values(origin=JSONObject(owner="user__username"))[:1]
    rows = _in_store().exclude(teams=None).order_by()
    whole = rows.values_list(
        "teams", "kind", Coalesce(origin, Subquery(uploader)), age("created_ms", "used_ms")
    ).annotate(
        bytes=Sum(_OWN),
        items=Count("id"),
        cold=Sum(_OWN, filter=_lies_in(settings.COLD_STORE_URL), default=0),
    )
    uploads = models.Upload.objects.filter(manifest=None, bytes__gt=0).order_by()
    begun = uploads.values_list("team", "user__username", age("created_ms")).annotate(
        sum=Sum("bytes"), items=Count("id")
    )
    return [
        Holding(team, kind, (of or {}).get("project") or "", (of or {}).get("owner") or "", Age(old), *sums)
        for team, kind, of, old, *sums in whole
    ] + [Holding(team, "upload", "", owner, Age(old), *sums) for team, owner, old, *sums in begun]


def stored_of(team: str, kind: str) -> int:
    """Bytes of this kind in the store that this team has sent."""
    rows = _in_store().filter(teams=team, kind=kind)
    return rows.aggregate(sum=Sum(_OWN))["sum"] or 0


def unused_since(before_ms: int, limit: int, besides: Iterable[str], chosen: Q) -> list[models.Manifest]:
    """In the hot store those that were made, moved and used before then; the oldest."""
    rows = models.Manifest.objects.filter(_lies_in(settings.STORE_URL), chosen, moved_from="")
    rows = rows.filter(created_ms__lt=before_ms, used_ms__lt=before_ms, moved_ms__lt=before_ms)
    rows = rows.exclude(id__in=list(besides)).defer("document")
    return list(rows.order_by("created_ms", "id")[:limit])


def uploaded(kinds: Iterable[str]) -> Q:
    """Which manifests of these kinds were uploaded."""
    uploads = models.Upload.objects.filter(manifest=OuterRef("id"))
    return Q(Exists(uploads), kind__in=list(kinds))


def used_again(limit: int) -> list[models.Manifest]:
    """In the cold store, and used since they were moved there."""
    rows = models.Manifest.objects.filter(
        _lies_in(settings.COLD_STORE_URL), used_ms__gt=F("moved_ms"), moved_from=""
    )
    return list(rows.defer("document").order_by("used_ms", "id")[:limit])


def moved_before(before_ms: int, limit: int, besides: Iterable[str] = ()) -> list[models.Manifest]:
    """Whose files lie at their old place, too."""
    rows = models.Manifest.objects.exclude(moved_from="").filter(moved_ms__lt=before_ms)
    rows = rows.exclude(id__in=list(besides))
    return list(rows.defer("document").order_by("moved_ms", "id")[:limit])


def storage_limits(teams: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Team → kind → bytes, where somebody has set one; of these teams, or of all."""
    rows = models.StorageLimit.objects.order_by("team_id", "kind")
    found: dict[str, dict[str, int]] = {}
    for row in rows if teams is None else rows.filter(team__in=list(teams)):
        found.setdefault(row.team_id, {})[row.kind] = row.bytes
    return found


def storage_limit(team: str, kind: str) -> int | None:
    return models.StorageLimit.objects.filter(team=team, kind=kind).values_list("bytes", flat=True).first()


def uploaded_of(team: str, kind: str) -> int:
    """What its uploads of this kind have, complete or not."""
    return models.Upload.objects.filter(team=team, kind=kind).aggregate(sum=Sum("bytes"))["sum"] or 0


def beyond_limit(team: str, kind: str, used: int, limit: int, what: str) -> TrainmasterError:
    """The refusal of something that no longer fits."""
    sentence = (
        f"{what} does not fit: team {team} has {format_bytes(used)} of the {format_bytes(limit)} that its storage "
        f"limit for {kind} allows. {REMEDY}"
    )
    return TrainmasterError("too_large", sentence, limit=limit)


def why_no_new_checkpoints(team: str) -> str:
    """A sentence where the team has more checkpoints than its limit allows; "" otherwise."""
    limit = storage_limit(team, "checkpoint")
    if limit is None or (used := stored_of(team, "checkpoint")) < limit:
        return ""
    return (
        f"Team {team} has {format_bytes(used)} of checkpoints, and its storage limit for them is "
        f"{format_bytes(limit)}. {REMEDY}."
    )


def abandoned(before_ms: int, limit: int, besides: Iterable[str] = ()) -> list[tuple[models.Upload, int]]:
    """The oldest uploads that were begun before then and never completed, and when they, or a file of theirs that is
    not there, were begun last."""
    rows = models.Upload.objects.filter(manifest=None, created_ms__lt=before_ms).exclude(id__in=list(besides))
    latest = Greatest("created_ms", Coalesce(Max("received__writing_ms"), 0))
    found = rows.annotate(latest_ms=latest).order_by("created_ms", "id")[:limit]
    return [(row, row.latest_ms) for row in found]


def unreferenced(
    kinds: Iterable[str], before_ms: int, limit: int, besides: Iterable[str] = ()
) -> list[models.Manifest]:
    """The oldest manifests in the store of these kinds to which nothing but their uploads refers."""
    rows = _in_store().filter(kind__in=list(kinds), created_ms__lt=before_ms).exclude(id__in=list(besides))
    for relation in models.Manifest._meta.related_objects:
        if relation.related_model is not models.Upload:
            named = {relation.field.attname: OuterRef("id")}
            rows = rows.filter(~Exists(relation.related_model._default_manager.filter(**named)))
    return list(rows.defer("document").order_by("created_ms", "id")[:limit])


def of_teams(teams: Iterable[str]) -> QuerySet[Any]:
    """Ids of the manifests whose bytes one of these teams has sent."""
    return models.Manifest.objects.filter(teams__in=list(teams)).values("id")


def longest_unchecked() -> models.Manifest | None:
    """Of those in the store, the one that was read and compared longest ago."""
    return _in_store().exclude(source_url="").order_by("checked_ms", "id").first()


def _in_store() -> QuerySet[models.Manifest]:
    """Manifests whose files the platform keeps, not those that lie in place elsewhere."""
    return models.Manifest.objects.filter(reduce(or_, map(_lies_in, store_urls())))


def _lies_in(store: str) -> Q:
    return Q(source_url__startswith=f"{store.rstrip('/')}/")
