"""What the buttons of a deployment do."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.delivery import keeping
from webapp.rollouts import services as rollouts


@login_required
@require_POST
def cancel(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    services.cancel(actor_of(request), deployment_id)
    messages.success(request, "The deployment is cancelled; the nodes remove what they had received.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def retry(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    rollouts.retry(actor_of(request), deployment_id)
    messages.success(request, "The nodes fetch it again; what they have verified they keep.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def pin(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    pinned = request.POST.get("pin") == "1"
    keeping.pin(actor_of(request), deployment_id, pinned)
    sentence = "Nodes never evict it now." if pinned else "Nodes may evict it when they need disk space."
    messages.success(request, sentence)
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def promote(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    rollouts.promote(actor_of(request), deployment_id)
    messages.success(request, "The other nodes follow as soon as the canaries have passed.")
    return redirect("deployments:detail", deployment_id=deployment_id)


@login_required
@require_POST
def rollback(request: HttpRequest, deployment_id: str) -> HttpResponse:
    queries.seen_by(actor_of(request), deployment_id)
    rollouts.roll_back(actor_of(request), deployment_id)
    messages.success(request, "The nodes go back to what they ran before.")
    return redirect("deployments:detail", deployment_id=deployment_id)
