"""Who may do what with the storage of a team."""

from collections.abc import Iterator

from tests.webapp.permission_rows import ADMINS, MEMBERS, OPERATORS, SIGNED_IN, Row, api_row


def storage_rows() -> Iterator[Row]:
    yield Row("get", "storage/", SIGNED_IN)
    yield Row("post", "storage/limits/", ADMINS, body={"team": "vision", "kind": "dataset", "size": "1TiB"})
    one = "storage/leftovers/<int:leftover_id>/keep/"
    yield Row("post", one, MEMBERS, "storage/leftovers/{leftover}/keep/", {"kept": "yes"})


def api_storage_rows() -> Iterator[Row]:
    yield api_row("get", "storage", SIGNED_IN)
    yield api_row("get", "storage/shares", SIGNED_IN)
    yield api_row("get", "storage/leftovers", SIGNED_IN)
    yield api_row("get", "storage/damages", SIGNED_IN)
    limit = {"team": "vision", "kind": "dataset", "bytes": 2**40}
    yield api_row("put", "storage/limits", ADMINS, body=limit)
    yield api_row("put", "storage/budgets", ADMINS, body={"team": "vision", "month_micro_dollars": None})
    yield api_row("get", "storage/retention", OPERATORS)
    one = "storage/leftovers/<int:leftover_id>"
    yield api_row("patch", one, MEMBERS, "storage/leftovers/{leftover}", {"kept": True})
