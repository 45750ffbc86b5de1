"""Artifacts through the server: the addresses `mlflow-artifacts:/…` of runs, logged models and model versions.

FOLDER/RUN/artifacts/PATH            a file of a run; FOLDER is the experiment's id or its artifact_location
FOLDER/models/MODEL/artifacts/PATH   a file of a logged model
model-versions/VERSION/PATH              a file of a model of ours that MLflow did not register; to be read only
"""

import io
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry
from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from trainmaster.store import Store
from webapp.accounts import permissions
from webapp.artifacts.queries import opened
from webapp.base.downloads import download
from webapp.experiments import services
from webapp.experiments.files import Owner
from webapp.mlflow import limits, logged_models, runs, shapes
from webapp.mlflow.endpoint import Call, response_of
from webapp.mlflow.errors import invalid, missing
from webapp.registry import queries as registry

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

PART_SALT = "webapp.mlflow.part"
MOST_UPLOADED = 10 * 1024 * 1024
PART_SECONDS = 24 * 3600
VERSIONS = "model-versions"


@dataclass(frozen=True, slots=True)
class Place:
    """Something in a folder that this request may see."""

    owner: Owner
    path: str


def safe(path: str) -> str:
    """The path as it was given, if it stays below its folder also where a client quoted it once or twice too often.

    "" is the folder itself.
    """
    path = path.removesuffix("/")
    if not path:
        return ""
    once = unquote(path)
    twice = unquote(once)
    try:
        check_path(path)
        for decoded in {once, twice} - {path}:
            check_path(decoded)
    except TrainmasterError as error:
        raise invalid(f"Invalid path: {error.numbers['why']}") from error
    if unquote(twice) != twice:
        raise invalid(f"Invalid path: {path[:200]!r} is quoted more than twice")
    return path


def located(call: Call, path: str) -> Place:
    """The owner and the path below it. Raises RESOURCE_DOES_NOT_EXIST for addresses of anything else."""
    parts = safe(path).split("/")
    end = parts.index("artifacts") if "artifacts" in parts else 0
    below = "/".join(parts[end + 1 :])
    if end >= 3 and parts[end - 2] == "models":
        return Place(logged_models.find(call, parts[end - 1]), below)
    if end >= 2:
        return Place(runs.find(call, parts[end - 1]), below)
    raise missing(f"No such artifact: '{path[:200]}'. Artifacts lie below EXPERIMENT/RUN/artifacts.")


def listed(call: Call, owner: Owner, folder: str, *, below: str | None = None) -> list[dict[str, Any]]:
    """The entries of a folder; their paths begin with `below`, by default with the folder."""
    entries = services.list_files(call.actor, owner, folder)
    prefix = folder if below is None else below
    return [
        {
            "path": posixpath.join(prefix, posixpath.basename(entry.path)),
            "is_dir": entry.is_folder,
            **({"file_size": entry.size} if entry.size else {}),
        }
        for entry in entries
    ]


def list_of_run(call: Call) -> dict[str, Any]:
    folder = safe(call["path"] or "")
    row = runs.find(call, runs.run_id_of(call))
    files = listed(call, row, folder)
    return {"root_uri": shapes.artifact_uri(row), **({"files": files} if files else {})}


def list_of_logged_model(call: Call, model_id: str) -> dict[str, Any]:
    row = logged_models.find(call, model_id)
    files = listed(call, row, safe(call["artifact_directory_path"] or ""))
    return {"root_uri": logged_models.artifact_uri(row), **({"files": files} if files else {})}


def list_by_address(call: Call) -> dict[str, Any]:
    path = call["path"] or ""
    if safe(path).split("/")[0] == VERSIONS:
        files = _version_listing(call, safe(path))
    else:
        place = located(call, path)
        files = listed(call, place.owner, place.path, below="")
    return {"files": files} if files else {}


def get(call: Call, artifact_path: str) -> HttpResponseBase:
    if safe(artifact_path).split("/")[0] == VERSIONS:
        return _get_of_version(call, safe(artifact_path))
    place = located(call, artifact_path)
    return _sent(call, place.owner, place.path)


def _sent(call: Call, owner: Owner, path: str) -> HttpResponseBase:
    try:
        size = services.read_file(call.actor, owner, path, 0, 0).size
    except TrainmasterError as error:
        if error.code in ("not_found", "request_invalid"):
            raise missing(f"No such artifact: '{path[:200]}'") from None
        raise

    def read(offset: int, length: int) -> Iterable[bytes]:
        return services.read_file(call.actor, owner, path, offset, length).blocks

    return download(call.request, path, size, read)


def put(call: Call, artifact_path: str) -> dict[str, Any]:
    place = located(call, artifact_path)
    services.put_file(call.actor, place.owner, place.path, body_stream(call.request))
    return {}


def upload(call: Call) -> dict[str, Any]:
    """A small file that MLflow's page sends."""
    for name in ("run_uuid", "path"):
        if not call[name]:
            raise invalid(f"Request must specify {name}.")
    path = safe(call["path"])
    data = call.request.read(MOST_UPLOADED + 1)
    if not data:
        raise invalid("Request must specify data.")
    if len(data) > MOST_UPLOADED:
        raise invalid("Artifact size is too large. Max size is 10MB.")
    services.put_file(call.actor, runs.find(call, call["run_uuid"]), path, io.BytesIO(data))
    return {}


def body_stream(request: HttpRequest) -> IO[bytes]:
    """The body without a copy in memory."""
    return cast(IO[bytes], request if request.headers.get("Content-Length") != "0" else io.BytesIO())


def delete(call: Call, artifact_path: str) -> dict[str, Any]:
    place = located(call, artifact_path)
    if not place.path:
        for entry in services.list_files(call.actor, place.owner):
            services.delete_files(call.actor, place.owner, entry.path)
    else:
        services.delete_files(call.actor, place.owner, place.path)
    return {}


def create_upload(call: Call, artifact_path: str) -> dict[str, Any]:
    """Each part has an address of its own, signed, because the client sends it without its token."""
    place = located(call, artifact_path)
    path = posixpath.join(place.path, posixpath.basename(call["path"]))
    upload = services.start_upload(call.actor, place.owner, path, call["num_parts"] or 0)
    base = call.request.build_absolute_uri("/api/2.0/mlflow-artifacts/parts/")
    return {
        "upload_id": upload.id,
        "credentials": [
            {"url": f"{base}{signing.dumps([upload.id, number], salt=PART_SALT)}", "part_number": number}
            for number in range(1, upload.parts + 1)
        ],
    }


@csrf_exempt
def put_part(request: HttpRequest, signed: str) -> HttpResponseBase:
    """One part of a large file; the signature in the address stands for the token."""
    if request.method != "PUT":
        return HttpResponse(status=405, headers={"Allow": "PUT"})
    try:
        upload_id, number = signing.loads(signed, salt=PART_SALT, max_age=PART_SECONDS)
        size = services.receive_part(upload_id, number, body_stream(request))
    except signing.BadSignature:
        return missing("This address of a part is not valid, or is older than a day.").response
    except Exception as error:
        return response_of(request, error)
    return HttpResponse(status=200, headers={"ETag": f'"{upload_id}-{number}-{size}"'})


def complete_upload(call: Call, artifact_path: str) -> dict[str, Any]:
    services.complete_upload(call.actor, located(call, artifact_path).owner, call["upload_id"] or "")
    return {}


def abort_upload(call: Call, artifact_path: str) -> dict[str, Any]:
    services.abort_upload(call.actor, located(call, artifact_path).owner, call["upload_id"] or "")
    return {}


def get_of_run(call: Call) -> HttpResponseBase:
    """What MLflow serves at /get-artifact."""
    return _sent(call, runs.find(call, runs.run_id_of(call)), safe(call["path"]))


def get_of_logged_model(call: Call, model_id: str) -> HttpResponseBase:
    return _sent(call, logged_models.find(call, model_id), safe(call["artifact_file_path"]))


def _version_files(call: Call, path: str) -> tuple["Manifest", str]:
    """The manifest of a model version, and the rest of the path."""
    _, version_id, rest = (f"{path}//").split("/", 2)
    version = registry.version(version_id)
    known = version is not None and version.manifest is not None and call.sees(version.model.team_id)
    if not known or version is None or version.manifest is None:
        raise missing(f"No such artifact: '{path[:200]}'")
    permissions.require(call.actor, "model.view", version.model.team_id, what=f"model version {version_id}")
    return version.manifest, rest.strip("/")


def _version_listing(call: Call, path: str) -> list[dict[str, Any]]:
    manifest, folder = _version_files(call, path)
    sizes = {file["path"]: file["size"] for file in manifest.document["files"]}
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for file, size in sizes.items():
        if file.startswith(prefix):
            head, _, rest = file[len(prefix) :].partition("/")
            entries[head] = {
                "path": head,
                "is_dir": bool(rest),
                **({} if rest or not size else {"file_size": size}),
            }
    return [entries[name] for name in sorted(entries)]


def get_of_version(call: Call) -> HttpResponseBase:
    """What MLflow serves at /model-versions/get-artifact."""
    name, number = limits.model_name(call["name"]), limits.version(call["version"])
    rows = registry.living_versions([call.team]).filter(model__name=name, version=max(number, 0))
    for row in rows:
        return _get_of_version(call, f"{VERSIONS}/{row.id}/{safe(call['path'])}")
    raise missing(f"Model Version (name={name}, version={number}) not found")


def _get_of_version(call: Call, path: str) -> HttpResponseBase:
    manifest, file = _version_files(call, path)
    entry = next((entry for entry in manifest.document["files"] if entry["path"] == file), None)
    if entry is None:
        raise missing(f"No such artifact: '{path[:200]}'")
    place = stored_path(manifest.source_url, FileEntry(**entry))
    return download(call.request, file, entry["size"], _reader(opened(manifest.source_url), place))


def _reader(store: Store, place: str) -> Callable[[int, int], Iterable[bytes]]:
    return lambda offset, length: store.stream_range(place, offset, length) if length else []
