"""The button that orders a profile of a running job."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.queries import actor_of
from webapp.jobs import profiles, queries


@login_required
@require_POST
def order(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    ordered = profiles.order(actor_of(request), job_id)
    messages.success(
        request,
        f"Rank 0 records its next {ordered.steps} steps. The table appears under Media, the trace under Artifacts.",
    )
    return redirect("jobs:detail", job_id=job_id)
