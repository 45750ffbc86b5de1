"""What would start a waiting job now: asked of the planner while somebody looks at the job."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.errors import TrainmasterError
from platform_core.jobs.spec import restore
from platform_core.jobs.states import WAITING
from platform_core.scheduling.forecast.changes import Change, changes
from platform_core.units import HOUR_MS
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.jobs.models import Job
from webapp.pages import fragments
from webapp.scheduling import situation

# A dozen rounds or two, each a tenth of a second over a large cluster: not once for everybody who looks.
KEPT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """Fragment: changes, which the page of a pending job loads."""

    job: Job
    waits: bool
    lines: list[dict[str, str]]  # sentence; clone: the query of a changed clone, or ""


@login_required
@require_safe
def of_job(request: HttpRequest, job_id: str) -> HttpResponse:
    actor, job = actor_of(request), jobs.find(job_id)
    if job is None or not may(actor, "job.view", job.team_id):
        raise TrainmasterError("not_found", what=f"job {job_id}")
    waits = job.state in WAITING
    may_clone = may(actor, "job.submit", job.team_id)
    tolerated = restore(job.spec).tolerations
    lines = [
        {"sentence": each.sentence, "clone": _clone(each, tolerated) if may_clone else ""}
        for each in (_found(job_id) if waits else ())
    ]
    return fragments.render(request, "queue/changes.html", ChangesPage(job, waits, lines))


def _found(job_id: str) -> tuple[Change, ...]:
    key = f"queue:changes:{job_id}"
    changes_found: tuple[Change, ...] | None = cache.get(key)
    if changes_found is None:
        changes_found = changes(situation.load(now_ms()), situation.policy(), job_id)
        cache.set(key, changes_found, KEPT_SECONDS)
    return changes_found


def _clone(change: Change, tolerated: tuple[str, ...]) -> str:
    """What the form of a clone is filled in with; "" for what is not the job's own to change."""
    match change.field, change.value:
        case "num_gpus", gpus:
            return urlencode({"num_gpus": gpus, "min_gpus": ""})
        case "max_runtime_ms", int(limit_ms):
            return urlencode({"max_runtime_hours": f"{limit_ms / HOUR_MS:g}"})
        case "tolerations", missing:
            return urlencode({"tolerations": " ".join([*tolerated, str(missing)])})
        case "priority" | "maximum" | "more_nodes", _:
            return ""
    return urlencode({change.field: change.value})
