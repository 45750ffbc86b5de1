"""The files of runs and of logged models: put, list, read, delete; large ones in parts.

Bytes lie in the platform's store under runs/ID/GENERATION/PATH. A path that is written again gets the next generation,
so the manifest of a registered model stays true; bytes that no manifest holds are deleted when they are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Q, QuerySet, When

from platform_core.distribution.content.manifest import FilePart, join
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.copying import lasting_etag, source_url, write_file
from trainmaster.store.port import BLOCK
from webapp.accounts.permissions import Actor, require
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.base.identity import new_run_id, now_ms
from webapp.experiments import space
from webapp.experiments.models import LoggedModel, Run, RunArtifact, RunFile

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

Owner: TypeAlias = Run | LoggedModel
MAX_PATH = 1_000


@dataclass(frozen=True, slots=True)
class Listed:
    """A file or a folder directly below another folder."""

    path: str
    size: int | None  # None for a folder
    only: Listed | None = None  # of a folder: the file of the same name that alone lies in it

    @property
    def is_folder(self) -> bool:
        return self.size is None


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file, from an offset."""

    path: str
    size: int  # of the whole file
    blocks: Iterable[bytes]


def put(actor: Actor, owner: Owner, path: str, body: IO[bytes] | Iterable[bytes]) -> RunFile:
    """Streams one file into the store. The same path again replaces it, when the new bytes are complete."""
    _require_writable(actor, owner)
    row, generation = _begin(owner, checked(path))
    store = _store()
    place = f"{_folder(owner)}/{owner.pk}/{generation}/{row.path}"
    try:
        part = write_file(store, place, row.path, _limited(owner, row.path, body))
    except TrainmasterError as error:
        if error.code == "source_unavailable":
            raise TrainmasterError("unavailable", what="The store") from error
        raise
    document = part.as_document() | {"etag": lasting_etag(store, place)}
    return _complete(owner, row, generation, part, document)


def checked(path: str) -> str:
    """A relative path below the folder of a run. Raises request_invalid."""
    try:
        path = check_path(path)
    except TrainmasterError as error:
        raise TrainmasterError("request_invalid", what="the path", why=error.numbers["why"]) from error
    if len(path) > MAX_PATH:
        why = f"it has {len(path)} characters; the limit is {MAX_PATH}"
        raise TrainmasterError("request_invalid", what="the path", why=why)
    return path


@transaction.atomic
def _begin(owner: Owner, path: str) -> tuple[RunFile, int]:
    """The row of the path and the generation that this writing has to itself."""
    parents = path.split("/")[:-1]
    above = ["/".join(parents[: depth + 1]) for depth in range(len(parents))]
    clash = (
        _rows(owner).filter(Q(path__in=above) | Q(path__startswith=f"{path}/"), size__isnull=False).first()
    )
    if clash is not None:
        file, folder = sorted((path, clash.path), key=len)
        why = f"{file} is a folder, as {folder} lies in it; it cannot be a file as well"
        raise TrainmasterError("request_invalid", what=f"the path {path}", why=why)
    row, made = RunFile.objects.get_or_create(path=path, **_key(owner), defaults={"created_ms": now_ms()})
    if made:
        return row, 0
    row = RunFile.objects.select_for_update(no_key=True).get(pk=row.pk)
    row.begun += 1
    row.save(update_fields=["begun"])
    return row, row.begun - 1


def _complete(
    owner: Owner, row: RunFile, generation: int, part: FilePart, document: Mapping[str, Any]
) -> RunFile:
    """The writing that began last counts, whichever ends first."""
    with transaction.atomic():
        before = RunFile.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
        if before is None:  # deleted meanwhile
            _delete_bytes(owner, row.path, [generation])
            raise TrainmasterError("not_found", what=f"file {row.path}")
        superseded = (
            before.generation if generation > before.generation or before.size is None else generation
        )
        if before.size is None or generation > before.generation:
            before.size, before.sha256 = part.entry.size, part.entry.sha256
            before.generation, before.part, before.created_ms = generation, dict(document), now_ms()
            before.save()
    if superseded != before.generation:
        _delete_bytes(owner, row.path, [superseded])
    return before


def listing(actor: Actor, owner: Owner, folder: str = "") -> list[Listed]:
    """What lies directly in the folder, in order of the paths; also what a job handed over. Nothing for a file."""
    _require(actor, owner, "experiment.view")
    prefix = f"{checked(folder)}/" if folder else ""
    below: dict[str, list[tuple[str, int]]] = {}
    for path, size in _all_files(owner, prefix):
        head, _, rest = path[len(prefix) :].partition("/")
        below.setdefault(prefix + head, []).append((rest, size))
    return [_listed(path, below[path]) for path in sorted(below)]


def _listed(path: str, below: Sequence[tuple[str, int]]) -> Listed:
    rest, size = below[0]
    if not rest:
        return Listed(path, size)
    name = path.rpartition("/")[2]
    return Listed(path, None, Listed(f"{path}/{rest}", size) if len(below) == 1 and rest == name else None)


def _all_files(owner: Owner, prefix: str) -> Iterator[tuple[str, int]]:
    if isinstance(owner, Run):
        for artifact in RunArtifact.objects.filter(run=owner).select_related("manifest"):
            if f"{artifact.name}/".startswith(prefix) or prefix.startswith(f"{artifact.name}/"):
                for entry in artifact.manifest.document["files"]:
                    if (path := f"{artifact.name}/{entry['path']}").startswith(prefix):
                        yield path, entry["size"]
    rows = _rows(owner).filter(size__isnull=False, path__startswith=prefix)
    yield from ((path, size or 0) for path, size in rows.values_list("path", "size").iterator())


def read(actor: Actor, owner: Owner, path: str, offset: int = 0, size: int | None = None) -> Content:
    """Raises not_found; `size` bytes from `offset`, else all to the end."""
    _require(actor, owner, "experiment.view")
    path = checked(path)
    row = _rows(owner).filter(path=path, size__isnull=False).first()
    if row is not None and row.size is not None:
        store, place = _store(), f"{_folder(owner)}/{owner.pk}/{row.generation}/{path}"
        total = row.size
    else:
        store, place, total = _handed_over(owner, path)
    length = max(0, min(total - offset, total if size is None else size))
    return Content(path, total, store.stream_range(place, offset, length) if length else [])


def handed_over(run_id: str, name: str, most: int) -> bytes | None:
    """The one file that the job of this run handed over under this name, and nobody else could write; None for none.

    Raises request_invalid where it has more than `most` bytes.
    """
    artifact = RunArtifact.objects.filter(run=run_id, name=name).select_related("manifest").first()
    entries = artifact.manifest.document["files"] if artifact is not None else []
    if artifact is None or len(entries) != 1:
        return None
    size = entries[0]["size"]
    if size > most:
        why = f"it has {format_bytes(size)}; the limit is {format_bytes(most)}"
        raise TrainmasterError("request_invalid", what=f"the file {name}", why=why)
    store = artifact_queries.opened(artifact.manifest.source_url)
    return b"".join(store.stream_range(entries[0]["path"], 0, size)) if size else b""


def handed_over_like(actor: Actor, run: Run, beginning: str, most: int) -> list[tuple[Run, str]]:
    """Artifacts whose names begin so: of this run, then of the newest other runs of its experiment that have a job."""
    _require(actor, run, "experiment.view")
    rows = RunArtifact.objects.filter(
        run__experiment=run.experiment_id, run__deleted_ms=None, name__startswith=beginning
    )
    own_first = Case(When(run=run, then=0), default=1)
    rows = rows.select_related("run").order_by(own_first, "-run__created_ms", "name")
    return [(row.run, row.name) for row in rows[:most]]


def _handed_over(owner: Owner, path: str) -> tuple[Store, str, int]:
    """Where a file of a job's artifact lies, and its size."""
    if isinstance(owner, Run):
        for artifact in RunArtifact.objects.filter(run=owner).select_related("manifest"):
            for entry in artifact.manifest.document["files"]:
                if f"{artifact.name}/{entry['path']}" == path:
                    return artifact_queries.opened(artifact.manifest.source_url), entry["path"], entry["size"]
    raise TrainmasterError("not_found", what=f"file {path[:200]}")


def delete(actor: Actor, owner: Owner, path: str) -> int:
    """Deletes a file, or a folder with all in it. Returns how many files; 0 when nothing is there."""
    _require_writable(actor, owner)
    path = checked(path)
    with transaction.atomic():
        rows = _rows(owner).filter(Q(path=path) | Q(path__startswith=f"{path}/"))
        doomed = list(rows.select_for_update().values_list("pk", "path", "begun"))
        RunFile.objects.filter(pk__in=[pk for pk, *_ in doomed]).delete()
    for _, file, begun in doomed:
        _delete_bytes(owner, file, range(begun))
    return len(doomed)


def as_model(owner: Owner, folder: str) -> Manifest | None:
    """A manifest of the files in a folder, or of one file, or of an artifact of a job; None where nothing lies.

    Bytes stay where they are.
    """
    prefix = f"{folder}/" if folder else ""
    rows = list(_rows(owner).filter(Q(path=folder) | Q(path__startswith=prefix), size__isnull=False))
    if not rows:
        logged = RunArtifact.objects.filter(run=owner, name=folder) if isinstance(owner, Run) else None
        found = logged.select_related("manifest").first() if logged is not None else None
        return found.manifest if found is not None else None
    if any(row.path == folder for row in rows):
        prefix = folder.rpartition("/")[0]
        prefix = f"{prefix}/" if prefix else ""
    team = _team(owner)
    parts = [_moved(FilePart.from_document(row.part), row.path.removeprefix(prefix)) for row in rows]
    etags = {row.path.removeprefix(prefix): row.part.get("etag", "") for row in rows}
    generations = {row.generation for row in rows}
    if len(generations) == 1:
        base = source_url(settings.STORE_URL, _folder(owner), f"{owner.pk}/{generations.pop()}")
        return artifacts.register(join("model", parts), team, f"{base}/{prefix}".rstrip("/"), etags)
    return _copied(owner, rows, prefix, team)


def _copied(owner: Owner, rows: Iterable[RunFile], prefix: str, team: str) -> Manifest:
    """Files of several generations do not lie below one address: they are copied to one."""
    store, place = _store(), new_run_id()
    parts = []
    for row in rows:
        source = f"{_folder(owner)}/{owner.pk}/{row.generation}/{row.path}"
        blocks = store.stream_range(source, 0, row.size) if row.size else iter(())
        path = row.path.removeprefix(prefix)
        parts.append(write_file(store, f"model/{place}/{path}", path, blocks))
    return artifacts.register(join("model", parts), team, source_url(settings.STORE_URL, "model", place))


def _moved(part: FilePart, path: str) -> FilePart:
    return replace(part, entry=replace(part.entry, path=path))


def _delete_bytes(owner: Owner, path: str, generations: Iterable[int]) -> None:
    """Of writings that no manifest holds. What cannot be deleted now stays behind."""
    for generation in generations:
        place = f"{owner.pk}/{generation}"
        base = source_url(settings.STORE_URL, _folder(owner), place)
        if not artifact_queries.is_source(base):
            with suppress(TrainmasterError):
                _store().delete(f"{_folder(owner)}/{place}/{path}")


def _limited(owner: Owner, path: str, body: IO[bytes] | Iterable[bytes]) -> Iterator[bytes]:
    """The body in blocks, up to the limit of one file and to what the team has left."""
    team, most = _team(owner), settings.UPLOAD_LIMIT_BYTES
    room = space.left(team)
    size = 0
    for block in _blocks(body):
        size += len(block)
        if size > most:
            raise TrainmasterError("too_large", what=path, size=format_bytes(size), limit=format_bytes(most))
        if size > room:
            raise space.full(team, path)
        yield block


def _blocks(body: IO[bytes] | Iterable[bytes]) -> Iterator[bytes]:
    reader = getattr(body, "read", None)
    if reader is None:
        yield from body
        return
    while block := reader(BLOCK):
        yield block


def _require(actor: Actor, owner: Owner, action: str) -> None:
    require(actor, action, _team(owner), what=f"run {owner.pk}")


def _require_writable(actor: Actor, owner: Owner) -> None:
    _require(actor, owner, "experiment.edit")
    if owner.deleted_ms is not None:
        raise TrainmasterError(
            "illegal_transition", f"{owner.pk} was deleted; restore it before you change its files"
        )


def _team(owner: Owner) -> str:
    return str(owner.experiment.team_id)


def _folder(owner: Owner) -> str:
    return "runs" if isinstance(owner, Run) else "logged-models"


def _key(owner: Owner) -> dict[str, Any]:
    return {"run": owner} if isinstance(owner, Run) else {"model": owner}


def _rows(owner: Owner) -> QuerySet[RunFile]:
    return RunFile.objects.filter(**_key(owner))


def _store() -> Store:
    return open_store(settings.STORE_URL)
