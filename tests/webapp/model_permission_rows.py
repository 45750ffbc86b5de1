"""Who may do what with models, their versions and their gates."""

from collections.abc import Iterator

from tests.webapp.permission_rows import LEADS, MEMBERS, OF_TEAM, SIGNED_IN, Row, api_row

SUITE_METRICS = {"f1": "higher"}


def model_rows() -> Iterator[Row]:
    yield Row("get", "models/", SIGNED_IN)
    model, one = "models/<slug:team>/<str:name>/", "models/vision/{model}/"
    yield Row("get", model, OF_TEAM, one)
    yield Row("post", model + "gate/", LEADS, one + "gate/", {"policy": '{{"approvals": 1}}'})
    yield Row("get", model + "<int:number>/", OF_TEAM, one + "1/")
    yield Row("post", model + "<int:number>/describe/", MEMBERS, one + "1/describe/", {"licence": "MIT"})
    yield Row("post", model + "<int:number>/approve/", MEMBERS, one + "1/approve/")
    yield Row("post", model + "<int:number>/stage/", MEMBERS, one + "1/stage/", {"stage": "staging"})
    yield Row("post", model + "<int:number>/evaluate/", MEMBERS, one + "1/evaluate/", {"suite": "{suite}"})
    # Its target names no GPU type, which is an error message on the page for who may ask.
    yield Row(
        "post", model + "<int:number>/measure/", MEMBERS, one + "1/measure/", {"target": "{serving_target}"}
    )
    yield Row("get", "models/suites/", SIGNED_IN)
    suite = '{{"name": "new", "team": "vision", "command": "e.py", "gpu_type": "cpu", "metrics": {{"f1": "higher"}}}}'
    yield Row("post", "models/suites/publish/", "L N F F F Y Y", body={"file": suite})
    yield Row("get", model + "compare/", OF_TEAM, one + "compare/")
    yield Row("get", "models/targets/", SIGNED_IN)
    yield Row("post", "models/targets/set/", "L N F F F Y Y", body={"team": "vision", "name": "edge"})
    target = "models/targets/<slug:team>/<str:name>/delete/"
    yield Row("post", target, LEADS, "models/targets/vision/{serving_target}/delete/")
    registered = {"team": "vision", "name": "another", "checkpoint": "{checkpoint}"}
    yield Row("post", "models/register/", "L U F Y Y Y Y", body=registered)


def api_model_rows() -> Iterator[Row]:
    row = api_row
    yield row("get", "models", SIGNED_IN)
    version = {"team": "vision", "manifest": "{model_manifest}"}
    yield row("post", "models/<str:name>/versions", MEMBERS, "models/bytelm/versions", version)
    model, one = "models/<str:team>/<str:name>", "models/vision/{model}"
    number, first = f"{model}/versions/<int:number>", f"{one}/versions/1"
    yield row("get", model, OF_TEAM, one)
    yield row("patch", model, MEMBERS, one, {"description": "words"})
    yield row("put", f"{model}/aliases/<str:alias>", MEMBERS, f"{one}/aliases/best", {"version": 1})
    yield row("delete", f"{model}/aliases/<str:alias>", MEMBERS, f"{one}/aliases/best")
    yield row("get", f"{model}/comparison", OF_TEAM, f"{one}/comparison?a=1&b=1")
    yield row("get", number, OF_TEAM, first)
    yield row("patch", number, MEMBERS, first, {"licence": "MIT"})
    yield row("get", f"{number}/card", OF_TEAM, f"{first}/card")
    yield row("get", f"{model}/gate", OF_TEAM, f"{one}/gate")
    yield row("put", f"{model}/gate", LEADS, f"{one}/gate", {"approvals": 1})
    yield row("get", f"{number}/gate", OF_TEAM, f"{first}/gate")
    results = {"suite": "held-out", "lines": '{{"id": 1, "metrics": {{"f1": 1}}}}'}
    yield row("post", f"{number}/evaluations", MEMBERS, f"{first}/evaluations", results)
    yield row("put", f"{number}/approval", MEMBERS, f"{first}/approval")
    yield row("delete", f"{number}/approval", MEMBERS, f"{first}/approval")
    yield row("put", f"{number}/stage", MEMBERS, f"{first}/stage", {"stage": "staging"})
    run = f"{number}/evaluation-runs"
    yield row("get", run, OF_TEAM, f"{first}/evaluation-runs")
    yield row("post", run, MEMBERS, f"{first}/evaluation-runs", {"suite": "{suite}"})
    yield row("get", f"{number}/exports", OF_TEAM, f"{first}/exports")
    yield row("post", f"{number}/exports", MEMBERS, f"{first}/exports")
    yield row("get", "serving-targets", SIGNED_IN)
    target, edge = "serving-targets/<str:team>/<str:name>", "serving-targets/vision/{serving_target}"
    yield row("put", target, LEADS, edge, {"max_latency_ms": 5})
    yield row("delete", target, LEADS, edge)
    yield row("get", "evaluation-suites", SIGNED_IN)
    suite = {
        "name": "new", "team": "vision", "command": "e.py", "gpu_type": "cpu", "metrics": SUITE_METRICS,
    }  # fmt: skip
    yield row("post", "evaluation-suites", LEADS, "evaluation-suites", suite)
    yield row("get", "evaluation-suites/<str:team>/<str:name>", OF_TEAM, "evaluation-suites/vision/{suite}")
    yield row("get", "model-versions/<str:version_id>", OF_TEAM, "model-versions/{model_version}")
