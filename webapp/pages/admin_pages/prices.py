"""Prices and quotas of the whole platform, by GPU type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.queries import actor_of
from webapp.events import queries as events
from webapp.events.models import Event
from webapp.nodes import queries as nodes
from webapp.pages import fragments
from webapp.pages.accounts.forms import values
from webapp.pages.admin_pages.access import for_admins
from webapp.pages.admin_pages.forms import MICRO, PriceForm
from webapp.pages.verbs import carry_out
from webapp.quotas import queries, services
from webapp.quotas.queries import QuotaView

CHANGES_SHOWN = 100


@dataclass(frozen=True, slots=True)
class PriceRow:
    gpu_type: str
    micro_dollars: int | None  # an hour; None: no price was set
    dollars: str  # as the form shows it
    since_ms: int | None  # None: set before the log, or outside these pages
    gpus: int  # registered


@dataclass(frozen=True, slots=True)
class PriceChange:
    gpu_type: str
    before: int | None
    micro_dollars: int
    at_ms: int
    actor: str


@dataclass(frozen=True, slots=True)
class PricesPage:
    prices: tuple[PriceRow, ...]
    changes: tuple[PriceChange, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TypeQuotas:
    """The quotas of all teams for one GPU type, beside what the cluster has."""

    gpu_type: str
    gpus: int  # registered
    quotas: tuple[QuotaView, ...]
    guaranteed: int
    held: int
    borrowed: int
    notice: str


@dataclass(frozen=True, slots=True)
class QuotasPage:
    types: tuple[TypeQuotas, ...]


@for_admins
@require_safe
def prices(request: HttpRequest) -> HttpResponse:
    return _prices(request)


def _prices(
    request: HttpRequest, problems: Mapping[str, str] | None = None, status: int = 200
) -> HttpResponse:
    changes = _changes()
    since: dict[str, int] = {}
    for change in changes:
        since.setdefault(change.gpu_type, change.at_ms)
    price_of, gpus = queries.prices(), nodes.registered_slots()
    types = sorted({*price_of, *gpus, *queries.gpu_types()})
    page = PricesPage(
        prices=tuple(
            PriceRow(
                name, price_of.get(name), _dollars(price_of.get(name)), since.get(name), gpus.get(name, 0)
            )
            for name in types
        ),
        changes=changes[:CHANGES_SHOWN],
        problems=problems or {},
        typed=request.POST.dict() if problems else {},
    )
    return fragments.render(request, "admin_pages/prices.html", page, status=status)


def _dollars(micro_dollars: int | None) -> str:
    return "" if micro_dollars is None else f"{micro_dollars / MICRO:.6f}".rstrip("0").rstrip(".")


def _changes() -> tuple[PriceChange, ...]:
    """Newest first. A change made in Django admin has no numbers and is left out."""
    rows = events.recent(None, limit=10 * CHANGES_SHOWN, kind="PriceChanged")
    return tuple(_change(row, row.data) for row in rows if "micro_dollars_per_hour" in row.data)


def _change(event: Event, data: Mapping[str, Any]) -> PriceChange:
    return PriceChange(
        data["gpu_type"], data.get("before"), data["micro_dollars_per_hour"], event.at_ms, event.actor
    )


@for_admins
@require_POST
def set_price(request: HttpRequest) -> HttpResponse:
    def save() -> None:
        price = values(PriceForm(request.POST))
        services.set_price(actor_of(request), price["gpu_type"], round(price["dollars"] * MICRO))

    return carry_out(
        request,
        save,
        f"The price of {request.POST.get('gpu_type', '')} is saved.",
        redirect("admin_pages:prices"),
        lambda problems, status: _prices(request, problems, status),
    )


@for_admins
@require_safe
def quotas(request: HttpRequest) -> HttpResponse:
    every, gpus = queries.quotas_of_all(), nodes.registered_slots()
    types = sorted({*gpus, *(quota.gpu_type for quota in every)})
    page = QuotasPage(
        tuple(
            _of_type(name, gpus.get(name, 0), tuple(quota for quota in every if quota.gpu_type == name))
            for name in types
        )
    )
    return fragments.render(request, "admin_pages/quotas.html", page)


def _of_type(gpu_type: str, gpus: int, quotas: tuple[QuotaView, ...]) -> TypeQuotas:
    return TypeQuotas(
        gpu_type=gpu_type,
        gpus=gpus,
        quotas=quotas,
        guaranteed=sum(quota.guaranteed for quota in quotas),
        held=sum(quota.held for quota in quotas),
        borrowed=sum(quota.borrowed for quota in quotas),
        notice=quotas[0].notice if quotas else "",
    )
