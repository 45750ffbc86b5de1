"""Who may do what about the retraining of models, on the pages and over REST."""

from collections.abc import Iterator

from tests.webapp.permission_rows import LEADS, MEMBERS, OF_TEAM, SIGNED_IN, Row, api_row

# The model of the world was uploaded, so there is no recipe.
HELD = MEMBERS.replace("Y", "400")


def retraining_rows() -> Iterator[Row]:
    one, address = "retraining/<slug:team>/<str:name>/", "retraining/vision/{model}/"
    yield Row("get", "retraining/", SIGNED_IN)
    yield Row("get", one, OF_TEAM, address)
    yield Row("post", f"{one}policy/", LEADS, f"{address}policy/", {"enabled": "on", "max_age_days": "30"})
    yield Row("post", f"{one}policy/delete/", LEADS, f"{address}policy/delete/")
    yield Row("post", f"{one}start/", HELD, f"{address}start/")
    cycle, waiting = f"{one}<str:cycle_id>/", f"{address}{{cycle}}/"
    yield Row("post", f"{cycle}approve/", LEADS, f"{waiting}approve/", {"state": "requested"})
    yield Row("post", f"{cycle}cancel/", LEADS, f"{waiting}cancel/")


def api_retraining_rows() -> Iterator[Row]:
    row = api_row
    model, one = "models/<str:team>/<str:name>/retraining", "models/vision/{model}/retraining"
    yield row("get", "retraining", SIGNED_IN)
    yield row("get", model, OF_TEAM, one)
    yield row("put", model, LEADS, one, {"max_age_days": 30})
    yield row("delete", model, LEADS, one)
    yield row("get", f"{model}/cycles", OF_TEAM, f"{one}/cycles")
    yield row("post", f"{model}/cycles", HELD, f"{one}/cycles")
    cycle, waiting = "retraining-cycles/<str:cycle_id>", "retraining-cycles/{cycle}"
    yield row("get", cycle, OF_TEAM, waiting)
    yield row("post", f"{cycle}/approval", LEADS, f"{waiting}/approval")
    yield row("post", f"{cycle}/cancel", LEADS, f"{waiting}/cancel")
