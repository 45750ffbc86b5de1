"""Large files in numbered parts: announced, sent in any order, then joined into one file of a run or logged model."""

from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from django.conf import settings
from django.db.models import Q

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from trainmaster.store import open_store
from trainmaster.store.port import BLOCK
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import new_run_id, now_ms
from webapp.experiments import files
from webapp.experiments.files import Owner
from webapp.experiments.models import FileUpload, LoggedModel, RunFile

MAX_PARTS = 10_000
FORGOTTEN_MS = 7 * DAY_MS


def start(actor: Actor, owner: Owner, path: str, parts: int) -> FileUpload:
    """Announces a file of so many parts."""
    require(actor, "experiment.edit", str(owner.experiment.team_id), what=f"run {owner.pk}")
    if not 1 <= parts <= MAX_PARTS:
        raise TrainmasterError("request_invalid", what=f"{parts} parts", why=f"a file has 1 to {MAX_PARTS:,}")
    _forget_old(owner)
    return FileUpload.objects.create(
        id=new_run_id(),
        path=files.checked(path),
        parts=parts,
        user_id=accounts.user_key(actor.username),
        created_ms=now_ms(),
        **({"model": owner} if isinstance(owner, LoggedModel) else {"run": owner}),
    )


def receive(upload_id: str, number: int, body: IO[bytes]) -> int:
    """Stores one part; whoever announced the file was given the address of its parts. Returns its size."""
    upload = _upload(upload_id)
    if not 1 <= number <= upload.parts:
        why = f"the file was announced with {upload.parts} parts"
        raise TrainmasterError("request_invalid", what=f"part {number}", why=why)
    return open_store(settings.STORE_URL).write(_place(upload, number), _limited(body))


def complete(actor: Actor, owner: Owner, upload_id: str) -> RunFile:
    """Joins the parts in the order of their numbers."""
    upload = _own(actor, owner, upload_id)
    row = files.put(actor, owner, upload.path, _joined(upload))
    _forget(upload)
    return row


def check(actor: Actor, owner: Owner, upload_id: str) -> None:
    """Raises not_found unless the actor announced this upload for this run or model."""
    _own(actor, owner, upload_id)


def abort(actor: Actor, owner: Owner, upload_id: str) -> None:
    _forget(_own(actor, owner, upload_id))


def _own(actor: Actor, owner: Owner, upload_id: str) -> FileUpload:
    upload = _upload(upload_id)
    if owner.pk not in (upload.run_id, upload.model_id) or upload.user.username != actor.username:
        raise TrainmasterError("not_found", what=f"upload {upload_id[:60]}")
    return upload


def _upload(upload_id: str) -> FileUpload:
    upload = FileUpload.objects.select_related("user").filter(id=upload_id).first()
    if upload is None:
        raise TrainmasterError("not_found", what=f"upload {upload_id[:60]}")
    return upload


def _joined(upload: FileUpload) -> Iterator[bytes]:
    store = open_store(settings.STORE_URL)
    for number in range(1, upload.parts + 1):
        place = _place(upload, number)
        if not store.exists(place):
            raise TrainmasterError("upload_incomplete", upload=upload.id, missing=1)
        if size := store.size(place):
            yield from store.stream_range(place, 0, size)


def _forget(upload: FileUpload) -> None:
    store = open_store(settings.STORE_URL)
    for number in range(1, upload.parts + 1):
        with suppress(TrainmasterError):
            store.delete(_place(upload, number))
    upload.delete()


def _forget_old(owner: Owner) -> None:
    """Uploads that nobody completed, of this run or model."""
    old = FileUpload.objects.filter(
        Q(run=owner.pk) | Q(model=owner.pk), created_ms__lt=now_ms() - FORGOTTEN_MS
    )
    for upload in old:
        _forget(upload)


def _place(upload: FileUpload, number: int) -> str:
    return f"parts/{upload.id}/{number}"


def _limited(body: IO[bytes]) -> Iterator[bytes]:
    size = 0
    while block := body.read(BLOCK):
        size += len(block)
        if size > settings.UPLOAD_LIMIT_BYTES:
            raise TrainmasterError("too_large", what="the part", size=size, limit=settings.UPLOAD_LIMIT_BYTES)
        yield block
