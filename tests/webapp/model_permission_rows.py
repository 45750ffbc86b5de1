"""Who may do what with models, their versions and their gates."""

from collections.abc import Iterator

from tests.webapp.permission_rows import LEADS, MEMBERS, OF_TEAM, SIGNED_IN, Row, api_row


def model_rows() -> Iterator[Row]:
    yield Row("get", "models/", SIGNED_IN)
    model, one = "models/<slug:team>/<str:name>/", "models/vision/{model}/"
    yield Row("get", model, OF_TEAM, one)
    yield Row("post", model + "gate/", LEADS, one + "gate/", {"policy": '{{"approvals": 1}}'})
    yield Row("post", model + "<int:number>/approve/", MEMBERS, one + "1/approve/")
    yield Row("post", model + "<int:number>/stage/", MEMBERS, one + "1/stage/", {"stage": "staging"})
    registered = {"team": "vision", "name": "another", "checkpoint": "{checkpoint}"}
    yield Row("post", "models/register/", "L U F Y Y Y Y", body=registered)


def api_model_rows() -> Iterator[Row]:
    row = api_row
    yield row("get", "models", SIGNED_IN)
    version = {"team": "vision", "manifest": "{model_manifest}"}
    yield row("post", "models/<str:name>/versions", MEMBERS, "models/bytelm/versions", version)
    model, one = "models/<str:team>/<str:name>", "models/vision/{model}"
    number, first = f"{model}/versions/<int:number>", f"{one}/versions/1"
    yield row("get", f"{model}/gate", OF_TEAM, f"{one}/gate")
    yield row("put", f"{model}/gate", LEADS, f"{one}/gate", {"approvals": 1})
    yield row("get", f"{number}/gate", OF_TEAM, f"{first}/gate")
    results = {"suite": "held-out", "lines": '{{"id": 1, "metrics": {{"f1": 1}}}}'}
    yield row("post", f"{number}/evaluations", MEMBERS, f"{first}/evaluations", results)
    yield row("put", f"{number}/approval", MEMBERS, f"{first}/approval")
    yield row("delete", f"{number}/approval", MEMBERS, f"{first}/approval")
    yield row("put", f"{number}/stage", MEMBERS, f"{first}/stage", {"stage": "staging"})
    yield row("get", "model-versions/<str:version_id>", OF_TEAM, "model-versions/{model_version}")
