"""The pages of endpoints in the table of permissions."""

from collections.abc import Iterator

from tests.webapp.permission_rows import MEMBERS, OF_TEAM, OWN_OR_LEAD, SIGNED_IN, Row


def endpoint_rows() -> Iterator[Row]:
    one, address = "serving/<slug:team>/<str:name>/", "serving/vision/{endpoint}/"
    yield Row("get", "serving/", SIGNED_IN)
    yield Row("get", "serving/create/", SIGNED_IN)
    made = {"name": "writer", "model": "vision/bytelm", "gpu_type": "cpu"}
    yield Row("post", "serving/create/", MEMBERS, body=made)
    yield Row("get", one, OF_TEAM, address)
    # A canary is being watched already.
    changed = {"version": "1", "share_percent": "10", "watch_minutes": "5", "min_requests": "100"}
    yield Row("post", f"{one}version/", "L N F F 400 400 400", f"{address}version/", changed)
    yield Row("post", f"{one}try/", OF_TEAM, f"{address}try/", {"kind": "prediction", "input": "no JSON"})
    yield Row("post", f"{one}collect/", "L N F F 400 400 400", f"{address}collect/")
    yield Row("post", f"{one}promote/", OWN_OR_LEAD, f"{address}promote/")
    yield Row("post", f"{one}rollback/", OWN_OR_LEAD, f"{address}rollback/")
    yield Row(
        "post", f"{one}scale/", OWN_OR_LEAD, f"{address}scale/", {"min_replicas": "1", "max_replicas": "2"}
    )
    yield Row("post", f"{one}stop/", OWN_OR_LEAD, f"{address}stop/")
