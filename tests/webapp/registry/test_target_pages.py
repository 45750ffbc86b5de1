"""Serving targets on their page and in use, and two versions of a model side by side."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC, cluster
from tests.webapp.registry.test_exports import measured, register, report, set_target
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.registry import gates
from webapp.registry.models import ModelVersion, ServingTarget
from webapp.rpc import wanted

__all__ = ["cluster"]
Api = Callable[..., APIClient]
Browser = Callable[[User], Client]
FORM = {"team": "vision", "name": "edge", "max_latency_ms": "5", "max_memory": "1.5 GiB", "dtype": "float16"}


def constraints() -> dict[str, Any]:
    return ServingTarget.objects.get(team="vision", name="edge").constraints


def test_a_lead_sets_changes_and_deletes_a_target_on_the_page(cast: Cast, browser: Browser) -> None:
    lead = browser(cast.lead)
    done = lead.post("/models/targets/set/", {**FORM, "formats": ["onnx", "torchscript"]}, follow=True)
    assert (
        "requires: at most 5 ms (p95); at most 1.5 GiB of memory; float16; onnx or torchscript"
        in done.content.decode()
    )
    assert constraints() == {
        "max_latency_ms": 5.0, "max_memory_bytes": 3 << 29, "dtype": "float16", "formats": ["onnx", "torchscript"],
    }  # fmt: skip
    form = lead.get("/models/targets/?team=vision&name=edge").content.decode()
    assert 'value="1.5 GiB"' in form
    assert 'value="onnx" checked' in form
    viewer = browser(cast.viewer).get("/models/targets/").content.decode()
    assert "at most 5 ms (p95)" in viewer
    assert "Set a serving target" not in viewer
    lead.post("/models/targets/vision/edge/delete/", follow=True)
    assert not ServingTarget.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "field", "sentence"),
    [
        ({"max_latency_ms": "fast"}, "max_latency_ms", "&#x27;fast&#x27; is not valid: it must be a number"),
        ({"max_opset": "17.5"}, "max_opset", "it must be a whole number"),
        ({"max_memory": "much"}, "max_memory", "it must be a size, such as 2GiB"),
        ({"name": "Edge!"}, "name", "small letters"),
        ({"max_latency_ms": "-1"}, "max_latency_ms", "it must be from 0"),
    ],
)
def test_a_wrong_value_is_said_at_its_field_and_changes_nothing(
    cast: Cast, browser: Browser, wrong: dict[str, str], field: str, sentence: str
) -> None:
    answer = browser(cast.lead).post("/models/targets/set/", FORM | wrong)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert sentence in page
    assert f'id="about-{field}"' in page
    assert not ServingTarget.objects.exists()


def test_a_target_that_a_gate_asks_for_is_not_deleted(cast: Cast, browser: Browser, api: Api) -> None:
    set_target(cast)
    version = register(cast, report(measured()))
    gates.set_policy(actor_of(cast.lead), version.model, {"serving_target": "edge"})
    page = browser(cast.lead).post("/models/targets/vision/edge/delete/")
    assert page.status_code == 409
    assert "Serving target edge is asked for by the gate of mlp" in page.content.decode()
    refused = api(cast.lead).delete("/api/v1/serving-targets/vision/edge")
    assert (refused.status_code, refused.json()["code"]) == (409, "serving_target_in_use")
    gates.set_policy(actor_of(cast.lead), version.model, {})
    assert api(cast.lead).delete("/api/v1/serving-targets/vision/edge").status_code == 204


def test_a_target_of_a_job_that_has_not_ended_is_not_deleted(
    cast: Cast, api: Api, cluster: list[Node]
) -> None:
    set_target(cast)
    body = {**SPEC, "num_gpus": 1, "serving_target": "edge"}
    job = api(cast.owner).post("/api/v1/training-jobs", body, format="json").json()["id"]
    refused = api(cast.lead).delete("/api/v1/serving-targets/vision/edge")
    assert refused.status_code == 409
    assert f"({job})" in refused.json()["detail"]
    api(cast.owner).post(f"/api/v1/training-jobs/{job}/cancel")
    assert api(cast.lead).delete("/api/v1/serving-targets/vision/edge").status_code == 204


def test_a_job_never_starts_without_the_target_that_it_names(
    cast: Cast, api: Api, cluster: list[Node]
) -> None:
    set_target(cast)
    body = {**SPEC, "num_gpus": 1, "serving_target": "edge"}
    job = api(cast.owner).post("/api/v1/training-jobs", body, format="json").json()["id"]
    ServingTarget.objects.all().delete()
    spec = wanted.specification.load(Job.objects.get(id=job).spec)
    with pytest.raises(TrainmasterError, match="serving target edge in team vision"):
        wanted._environment("vision", spec)


def test_an_export_whose_package_is_absent_is_not_made(cast: Cast, browser: Browser) -> None:
    absent = measured(
        format="onnx", file="model.onnx", sha256="", difference=None, p50_ms=None, p95_ms=None, memory_bytes=None,
        opset=18, problem="onnx needs onnx, which this Python does not have: pip install onnx",
    )  # fmt: skip
    register(cast, report(measured(), absent))
    page = browser(cast.viewer).get("/models/vision/mlp/").content.decode()
    assert "not made" in page
    assert "Onnx needs onnx" in page or "onnx needs onnx" in page
    assert "as the original" in page
    assert ">wrong<" not in page


def test_two_versions_are_compared(cast: Cast, browser: Browser) -> None:
    first = register(cast, report(measured()))
    second = register(cast, report(measured(p95_ms=2.6, memory_bytes=150 << 20)))
    ModelVersion.objects.filter(id=first.id).update(metrics={"accuracy": 0.9}, stage="production")
    ModelVersion.objects.filter(id=second.id).update(metrics={"accuracy": 0.93, "loss": 0.2})
    lines = '{"id": 1, "metrics": {"f1": 0.5}}\n{"id": 2, "metrics": {"f1": 0.7}}'
    gates.evaluate(actor_of(cast.owner), second, "held-out", lines.splitlines())
    page = browser(cast.viewer).get("/models/vision/mlp/compare/").content.decode()
    for text in (
        "v1 and v2",
        "+0.03",
        "3.25 ms",
        "2.6 ms",
        "-20.0 %",
        "held-out: f1",
        "0.6 (0.5 to 0.7)",
        "150 MiB",
    ):
        assert text in page, text
    turned = browser(cast.viewer).get("/models/vision/mlp/compare/?a=2&b=1").content.decode()
    assert "v2 and v1" in turned
    assert browser(cast.viewer).get("/models/vision/mlp/compare/?a=2&b=9").status_code == 404
    assert browser(cast.outsider).get("/models/vision/mlp/compare/").status_code == 404


def test_one_version_has_nothing_to_be_compared_with(cast: Cast, browser: Browser) -> None:
    register(cast, report(measured()))
    assert (
        "fewer than two versions" in browser(cast.viewer).get("/models/vision/mlp/compare/").content.decode()
    )
