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
    job = queries.job_for(request, job_id)
    named = request.POST.get("rank", "")
    ranks = [whole_number(named, "rank", 10**6)] if named else profiles.all_ranks(job.num_gpus)
    kind = request.POST.get("kind", "trace")
    ordered = profiles.order(actor_of(request), job_id, ranks=ranks, kind=kind)
    who = (
        f"Rank {ranks[0]} records its"
        if len(ranks) == 1
        else f"{len(ranks)} of {job.num_gpus} ranks record their"
    )
    messages.success(
        request,
        f"{who} next {ordered.steps} steps. The files appear under Artifacts, their tables under Media.",
    )
    return redirect("jobs:detail", job_id=job_id)
