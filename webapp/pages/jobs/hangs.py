"""A job that hangs on its page: the notice, the stacks of its ranks, and what people do about it."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.jobs.states import JobState
from webapp.accounts.queries import actor_of
from webapp.jobs import hangs, queries
from webapp.jobs.models import Hang, Job

INSPECTED = (JobState.RUNNING, JobState.CHECKPOINTING)
_HEADLINES = {
    Hang.Stage.ASKING: "No progress: the stacks of its ranks are being read",
    Hang.Stage.WORKING: "No progress, but a rank still works",
    Hang.Stage.HELD: "Held: it makes no progress and keeps its slots",
}


@dataclass(frozen=True, slots=True)
class HangNotice:
    headline: str
    sentence: str
    held: bool


def notice(job: Job, now_ms: int) -> HangNotice | None:
    hang = hangs.open_hang(job) if job.state in INSPECTED and job.stop == "none" else None
    if hang is None:
        return None
    stage = Hang.Stage(hang.stage)
    return HangNotice(_HEADLINES[stage], hangs.sentence(hang, now_ms), stage is Hang.Stage.HELD)


@login_required
@require_POST
def stacks(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    hangs.order_stacks(actor_of(request), job_id)
    messages.success(request, "The stacks of its ranks are on their way; the whole text comes with the log.")
    return redirect("jobs:detail", job_id=job_id)


@login_required
@require_POST
def restart(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    hangs.restart(actor_of(request), job_id)
    messages.success(request, "The job stops now and restarts from its last checkpoint.")
    return redirect("jobs:detail", job_id=job_id)
