"""Who may do what with lineage and recalls."""

from collections.abc import Iterator

from tests.webapp.permission_rows import OF_TEAM, OWN_OR_LEAD, SIGNED_IN, Row, api_row


def lineage_rows() -> Iterator[Row]:
    one = "lineage/<str:kind>/<str:item_id>/"
    yield Row("get", one, OF_TEAM, "lineage/model/{model_version}/")
    yield Row(
        "post", one + "recall/", OWN_OR_LEAD, "lineage/dataset/{snapshot}/recall/", {"reason": "bad labels"}
    )
    yield Row("get", "recalls/", SIGNED_IN)
    yield Row("post", "recalls/<str:recall_id>/lift/", OWN_OR_LEAD, "recalls/{recall}/lift/")


def api_lineage_rows() -> Iterator[Row]:
    yield api_row("get", "lineage/<str:kind>/<str:item_id>", OF_TEAM, "lineage/checkpoint/{checkpoint}")
    yield api_row("get", "recalls", SIGNED_IN)
    bad = {"kind": "dataset", "item": "{snapshot}"}
    yield api_row("post", "recalls", OWN_OR_LEAD, body={**bad, "reason": "bad labels"})
    yield api_row("post", "recalls/preview", OWN_OR_LEAD, body=bad)
    yield api_row("delete", "recalls/<str:recall_id>", OWN_OR_LEAD, "recalls/{recall}")
