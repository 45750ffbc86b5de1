"""Files that runs handed over: their list for the job's page, and the way to each."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from platform_core.errors import TrainmasterError
from webapp.artifacts.queries import opened
from webapp.base.downloads import streamed
from webapp.experiments import queries
from webapp.experiments.models import Run, RunArtifact

MOST_FILES = 50  # listed of each


def listed(run: Run) -> list[dict[str, Any]]:
    """Newest first."""
    rows = RunArtifact.objects.filter(run=run).select_related("manifest").order_by("-created_ms", "-id")
    return [
        {
            "id": row.id,
            "name": row.name,
            "at_ms": row.created_ms,
            "files": row.manifest.document["files"][:MOST_FILES],
            "more": max(0, row.manifest.files - MOST_FILES),
        }
        for row in rows
    ]


@login_required
@require_GET
def download(request: HttpRequest, job_id: str, artifact_id: int, name: str) -> StreamingHttpResponse:
    """One file. Always to be saved: a script's HTML must not run as a page of ours."""
    run = queries.run_for(request, job_id)
    row = RunArtifact.objects.filter(run=run, id=artifact_id).select_related("manifest").first()
    files = row.manifest.document["files"] if row else []
    entry = next((entry for entry in files if entry["path"] == name), None)
    if row is None or entry is None:
        raise TrainmasterError("not_found", what=f"file {name}")
    blocks = opened(row.manifest.source_url).stream_range(name, 0, entry["size"])
    saved_as = content_disposition_header(True, name.rpartition("/")[2]) or "attachment"
    return StreamingHttpResponse(
        streamed(request, blocks),
        content_type="application/octet-stream",
        headers={"Content-Length": str(entry["size"]), "Content-Disposition": saved_as},
    )
