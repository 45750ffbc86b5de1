"""The forms of the quota panel, and its plot as JSON."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST, require_safe

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.pages.teams import detail as team_page
from webapp.pages.teams import quota as panel
from webapp.pages.teams.forms import QuotaForm
from webapp.quotas import services

MAX_DAYS = 366


@login_required
@require_POST
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    def save() -> None:
        form = QuotaForm(request.POST)
        if not form.is_valid():
            raise TrainmasterError("request_invalid", form.sentence())
        services.edit_quota(actor_of(request), slug, **form.changes())

    return team_page.act(request, slug, save, f"Quota for {request.POST.get('gpu_type', '')} saved.")


@login_required
@require_safe
def use(request: HttpRequest, slug: str) -> JsonResponse:
    """Slots in use over time, as the chart reads it; `?days=` back from now."""
    require(actor_of(request), "quota.view", slug)
    days = whole_number(request.GET.get("days", str(panel.PERIOD_DAYS)), "days", MAX_DAYS, 1)
    now = now_ms()
    return JsonResponse(panel.use_chart(slug, now - days * DAY_MS, now))
