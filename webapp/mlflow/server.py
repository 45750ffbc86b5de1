"""What a client asks a server before it works with it: version, health, abilities, workspaces."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from webapp.accounts import queries as accounts
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import missing

MLFLOW_VERSION = "3.17.2"  # whose API this is: the one in tools/mlflow.lock


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("OK", content_type="text/plain; charset=utf-8")


@require_safe
def version(request: HttpRequest) -> HttpResponse:
    return HttpResponse(MLFLOW_VERSION, content_type="text/plain; charset=utf-8")


@require_safe
def server_info(request: HttpRequest) -> JsonResponse:
    """Read without a token, so it tells nothing of this installation. A workspace is a team."""
    return JsonResponse(
        {
            "store_type": "SqlStore",
            "workspaces_enabled": True,
            "trace_archival_enabled": False,
            "multipart_uploads_enabled": True,
            "multipart_downloads_enabled": False,
            "presigned_upload_run_id_supported": False,
            "presigned_upload_model_id_supported": False,
            "features_enabled": {"gateway": False},
        }
    )


def list_workspaces(call: Call) -> dict[str, Any]:
    actor = call.actor
    teams = accounts.teams(None if actor.is_admin else actor.teams)
    found = [{"name": team.slug, "description": team.name} for team in teams]
    return {"workspaces": found} if found else {}


def get_workspace(call: Call, workspace_name: str) -> dict[str, Any]:
    actor = call.actor
    known = accounts.teams([workspace_name]) if actor.is_admin or workspace_name in actor.teams else ()
    if not known:
        raise missing(f"Workspace '{workspace_name[:60]}' not found")
    return {"workspace": {"name": known[0].slug, "description": known[0].name}}
