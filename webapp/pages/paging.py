"""Long lists, page by page. The addresses have `after` and `before`; see templates/parts/pager.html."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Pager:
    """What leads to the older and the newer rows; "" where there are none."""

    next: int | str = ""
    previous: int | str = ""


def paged(request: HttpRequest, rows: QuerySet[Any], size: int) -> tuple[list[Any], Pager]:
    """Returns the rows of the page that was asked for, the first if there is no such page, and its neighbours."""
    asked = request.GET.get("after") or request.GET.get("before") or "1"
    page = Paginator(rows, size).get_page(asked)
    return list(page), Pager(
        next=page.next_page_number() if page.has_next() else "",
        previous=page.previous_page_number() if page.has_previous() else "",
    )
