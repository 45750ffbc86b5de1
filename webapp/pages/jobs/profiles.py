"""The menu that orders a profile, a memory snapshot or a flame graph of a running job."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.jobs import profiles, queries


@login_required
@require_POST
def order(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    rank = whole_number(request.POST.get("rank", "") or "0", "rank", 10**6)
    kind = request.POST.get("kind", "trace")
    ordered = profiles.order(actor_of(request), job_id, ranks=[rank], kind=kind)
    messages.success(
        request,
        f"Rank {rank} records its next {ordered.steps} steps. The file appears under Artifacts, its table under Media.",
    )
    return redirect("jobs:detail", job_id=job_id)
