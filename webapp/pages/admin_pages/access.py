"""Who gets in: platform admins, by one check around every view."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.views.decorators.cache import never_cache

from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of

View = Callable[..., HttpResponse]


def for_admins(view: View) -> View:
    """Raises not_allowed for anybody else."""

    @wraps(view)
    def guarded(request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        require(actor_of(request), "platform.manage")
        return view(request, *args, **kwargs)

    return never_cache(login_required(guarded))
