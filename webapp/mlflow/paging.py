"""Pages by offset: MLflow's token is base64 of {"offset": …}."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from webapp.mlflow.errors import invalid

MAX_OFFSET = 1 << 31


def offset_of(token: str | None) -> int:
    if not token:
        return 0
    try:
        decoded = base64.b64decode(token)
    except ValueError:
        raise invalid("Invalid page token, could not base64-decode") from None
    try:
        offset = json.loads(decoded)["offset"]
        valid = isinstance(offset, int) and 0 < offset < MAX_OFFSET
    except (ValueError, KeyError, TypeError, RecursionError):
        valid, offset = False, 0
    if not valid:
        raise invalid(f"Invalid page token, decoded value={decoded[:100]!r}")
    return int(offset)


def token_of(offset: int) -> str:
    return base64.b64encode(json.dumps({"offset": offset}).encode()).decode()


def page(rows: Sequence[Any], token: str | None, size: int) -> tuple[Sequence[Any], str | None]:
    """The rows of the page that the token names, and the token of the next page, None for the last."""
    start = offset_of(token)
    following = token_of(start + size) if start + size < len(rows) else None
    return rows[start : start + size], following


def page_of_rows(rows: QuerySet[Any], token: str | None, size: int) -> tuple[list[Any], str | None]:
    """The same of rows of the database, which reads no more of them than the page has."""
    start = offset_of(token)
    selected = list(rows[start : start + size + 1])
    return selected[:size], token_of(start + size) if len(selected) > size else None


def answer(name: str, items: list[dict[str, Any]], token: str | None) -> dict[str, Any]:
    """As protocol messages are written: an empty list and an absent token are left out."""
    return {**({name: items} if items else {}), **({"next_page_token": token} if token else {})}
