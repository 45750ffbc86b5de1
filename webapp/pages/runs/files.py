"""Files of a run: a folder of them, a preview of one, and the way to its bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.base.downloads import streamed
from webapp.experiments import files, queries
from webapp.experiments.files import Listed
from webapp.experiments.models import Run
from webapp.pages.runs import previews
from webapp.pages.runs.previews import Preview

MOST_FILES = 1_000  # listed of a folder
MOST_COMPARED = 100


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    url: str  # of its preview, or of the folder
    size: int | None  # None for a folder
    download: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    path: str
    name: str  # the path, once: an artifact of one file is a folder of the same name
    download: str
    preview: Preview
    image: str  # the address of its pixels
    others: Sequence[tuple[str, str]] = ()  # recordings to compare with: name and address of the bytes


@dataclass(frozen=True, slots=True)
class FilesPart:
    above: Sequence[tuple[str, str]]  # name and address of the folders that lead here
    lines: Sequence[Line]
    more: int  # that are not listed
    chosen: Chosen | None


def part(actor: Actor, run: Run, path: str, folder: str) -> FilesPart:
    """The folder, or the one of the file that is shown. Raises not_found for a file that is not there."""
    if path:
        folder = _folder_of(actor, run, path)
    listed = [entry.only or entry for entry in files.listing(actor, run, folder)]
    above = [segment for segment in folder.split("/") if segment]
    return FilesPart(
        above=[(name, address("/".join(above[: depth + 1]))) for depth, name in enumerate(above)],
        lines=[_line(run, entry, entry.path == path) for entry in listed[:MOST_FILES]],
        more=max(0, len(listed) - MOST_FILES),
        chosen=_chosen(actor, run, path) if path else None,
    )


def _folder_of(actor: Actor, run: Run, path: str) -> str:
    """The folder in which the file is listed: an artifact of one file stands beside the others, as that file."""
    folder = path.rpartition("/")[0]
    above = folder.rpartition("/")[0]
    alone = any(entry.only and entry.only.path == path for entry in files.listing(actor, run, above))
    return above if alone else folder


def address(folder: str = "", file: str = "") -> str:
    return f"?{urlencode({'tab': 'artifacts'} | ({'file': file} if file else {'folder': folder}))}"


def _line(run: Run, entry: Listed, is_chosen: bool) -> Line:
    return Line(
        name=entry.path.rpartition("/")[2],
        url=address(folder=entry.path) if entry.is_folder else address(file=entry.path),
        size=entry.size,
        download="" if entry.is_folder else reverse("runs:file", args=[run.id, entry.path]),
        is_chosen=is_chosen,
    )


def _chosen(actor: Actor, run: Run, path: str) -> Chosen:
    size = files.read(actor, run, path, size=0).size
    folder, _, name = path.rpartition("/")
    return Chosen(
        path,
        name if folder == name else path,
        reverse("runs:file", args=[run.id, path]),
        previews.preview(path, size, _reader(actor, run, path)),
        reverse("runs:image", args=[run.id, path]),
        _others(actor, run, path),
    )


def _others(actor: Actor, run: Run, path: str) -> Sequence[tuple[str, str]]:
    """Recordings of the same kind to compare with: of this run, then of other runs of its experiment."""
    if previews.recording_of(path) is None:
        return ()
    stem = path.rpartition("/")[2].partition("-")[0]
    found = files.handed_over_like(actor, run, f"{stem}-", MOST_COMPARED)
    return [
        (
            name if other.id == run.id else f"{other.name}: {name}",
            reverse("runs:file", args=[other.id, f"{name}/{name}"]),
        )
        for other, name in found
        if previews.recording_of(name) and (other.id, f"{name}/{name}") != (run.id, path)
    ]


def _reader(actor: Actor, run: Run, path: str) -> Callable[[int], bytes]:
    return lambda count: b"".join(files.read(actor, run, path, size=count).blocks)


@login_required
@require_GET
def download(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    """One file. Always to be saved: a script's HTML must not run as a page of ours."""
    actor = actor_of(request)
    saved_as = content_disposition_header(True, path.rpartition("/")[2]) or "attachment"
    response = _response(actor, queries.find_run(actor, run_id), path, "application/octet-stream", saved_as)
    response.streaming_content = streamed(request, iter(response))
    return response


@login_required
@require_GET
def image(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    actor = actor_of(request)
    return image_response(actor, queries.find_run(actor, run_id), path)


def image_response(actor: Actor, run: Run, path: str) -> HttpResponseBase:
    """The pixels of an image; nothing else is served to be shown."""
    require_image(actor, run, path)
    return _response(actor, run, path, previews.IMAGES[previews.extension(path)], "inline")


def require_image(actor: Actor, run: Run, path: str) -> None:
    """Raises not_found for a file that is not there, or is no image, or too large for one."""
    known = previews.extension(path) in previews.IMAGES
    if not known or files.read(actor, run, path, size=0).size > previews.IMAGE_BYTES:
        raise TrainmasterError("not_found", what=f"image {path[:200]}")


def _response(
    actor: Actor, run: Run, path: str, content_type: str, disposition: str
) -> StreamingHttpResponse:
    content = files.read(actor, run, path)
    return StreamingHttpResponse(
        content.blocks,
        content_type=content_type,
        headers={
            "Content-Length": str(content.size),
            "Content-Disposition": disposition,
            "X-Content-Type-Options": "nosniff",
        },
    )
