"""Exports of versions: read with their files, judged by the serving targets of the team, asked for by the gate."""

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.registry.stages import Stage
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC, cluster, tick
from trainmaster.environment import serving_environment
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.jobs.models import Attempt
from webapp.nodes.models import Node
from webapp.registry import evidence, exports, gates, queries, services
from webapp.registry.models import ModelVersion, ServingTarget
from webapp.rpc.wanted import wanted_states

__all__ = ["cluster"]
Api = Callable[..., APIClient]
Browser = Callable[[User], Client]
WEIGHTS = b"a program"


def measured(**changes: Any) -> dict[str, Any]:
    return {
        "format": "torchscript", "file": "model.ts", "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
        "dtype": "float32", "difference": {"absolute": 1e-6, "relative": 1e-5, "of_tolerance": 0.1},
        "p50_ms": 1.5, "p95_ms": 3.25, "memory_bytes": 300 << 20, "opset": None, "problem": "", **changes,
    }  # fmt: skip


def report(*rows: dict[str, Any]) -> bytes:
    tolerance = {"absolute": 1e-5, "relative": 1e-4}
    return json.dumps(
        {"samples": 8, "device": "cpu, 2 threads", "tolerance": tolerance, "exports": rows}
    ).encode()


def register(cast: Cast, document: bytes, weights: bytes = WEIGHTS) -> ModelVersion:
    """With its report read, as the worker does it."""
    alice = actor_of(cast.owner)
    upload = artifacts.start_upload(alice, "vision", "model", "exports")
    for name, data in (("model.ts", weights), ("export.json", document)):
        artifacts.receive_file(alice, upload.id, name, io.BytesIO(data))
    manifest = artifacts.complete_upload(alice, upload.id).id
    version = services.register(alice, "vision", "mlp", manifest=manifest)
    exports.read_report(version.id)
    return fresh(version)


def fresh(version: ModelVersion) -> ModelVersion:
    found = queries.version(version.id)
    assert found is not None
    return found


def set_target(cast: Cast, name: str = "edge", **fields: Any) -> ServingTarget:
    return exports.set_target(actor_of(cast.lead), "vision", name, fields)


def page(browser: Browser, user: User) -> str:
    return browser(user).get("/models/vision/mlp/").content.decode()


def test_a_version_keeps_its_results_and_says_which_targets_it_serves(cast: Cast, api: Api) -> None:
    set_target(cast, "edge", max_latency_ms=5, formats=["torchscript"])
    set_target(cast, "phone", max_memory_bytes=64 << 20)
    register(cast, report(measured(), measured(format="onnx", file="", problem="onnx needs onnx")))
    found = api(cast.viewer).get("/api/v1/models/vision/mlp/versions/1/exports").json()
    assert [row["format"] for row in found["report"]["exports"]] == ["torchscript", "onnx"]
    assert found["report"]["exports"][0]["difference"]["absolute"] == 1e-6
    edge, phone = found["targets"]
    assert (edge["target"], edge["passed"], edge["format"], edge["reasons"]) == (
        "edge",
        True,
        "torchscript",
        [],
    )
    assert (phone["passed"], phone["format"]) == (False, None)
    assert phone["reasons"] == [
        "torchscript: its process takes 300 MiB, at most 64 MiB",
        "onnx: onnx needs onnx",
    ]


def test_reading_is_asked_for_when_a_version_with_a_report_is_registered(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    asked: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("webapp.registry.hints.current_app.send_task", lambda *task: asked.append(task))
    with django_capture_on_commit_callbacks(execute=True):
        version = register(cast, report(measured()))
    assert ("registry.read_exports", [version.id]) in asked


def test_another_file_than_was_measured_does_not_count(cast: Cast) -> None:
    row = set_target(cast, max_latency_ms=5)
    version = register(cast, report(measured()), weights=b"another program")
    assert exports.verdict(version, exports.target_of(row)).reasons == (
        "torchscript: its file model.ts is another one than was measured: the SHA-256 differs",
    )


def test_a_file_that_was_not_registered_does_not_count(cast: Cast) -> None:
    row = set_target(cast)
    version = register(cast, report(measured(file="other.ts")))
    [reason] = exports.verdict(version, exports.target_of(row)).reasons
    assert reason == "torchscript: its file other.ts was not registered"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b"{", "export.json is not valid: it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"{}", "exports 'None'"),
        (report(measured(p95_ms="fast")), "p95_ms 'fast'"),
    ],
)
def test_a_report_that_cannot_be_read_says_why(
    cast: Cast, browser: Browser, document: bytes, sentence: str
) -> None:
    row = set_target(cast)
    version = register(cast, document)
    assert sentence in version.exports["problem"]
    assert "its report cannot be read" in exports.verdict(version, exports.target_of(row)).reasons[0]
    assert "exports" in page(browser, cast.viewer)


def test_a_gate_may_ask_for_an_export_that_serves_a_target(cast: Cast) -> None:
    set_target(cast, max_latency_ms=2)
    version = register(cast, report(measured()))
    gates.set_policy(actor_of(cast.lead), version.model, {"serving_target": "edge"})
    version = fresh(version)
    assert gates.refusals(version, Stage.STAGING) == (
        "no export serves edge: torchscript: its latency is 3.25 ms (p95), at most 2 ms",
    )
    with pytest.raises(TrainmasterError, match="no export serves edge"):
        services.set_stage(actor_of(cast.owner), version, "production")
    set_target(cast, max_latency_ms=4)
    assert gates.refusals(version, Stage.STAGING) == ()
    ServingTarget.objects.all().delete()
    assert gates.refusals(version, Stage.STAGING) == (
        "no export serves edge: the team has no such serving target",
    )


def test_a_version_without_a_report_does_not_pass_such_a_gate(cast: Cast) -> None:
    set_target(cast)
    version = register(cast, report(measured()))
    before = evidence.digest(version, gates.policy_of(version.model))
    gates.set_policy(actor_of(cast.lead), version.model, {"serving_target": "edge"})
    version = fresh(version)
    assert evidence.digest(version, gates.policy_of(version.model)) != before
    ModelVersion.objects.filter(id=version.id).update(exports={})
    assert gates.refusals(fresh(version), Stage.STAGING) == ("no export serves edge: it has no export",)


def test_the_page_of_the_model_shows_targets_and_results(cast: Cast, browser: Browser) -> None:
    set_target(cast, "edge", max_latency_ms=5, formats=["torchscript"])
    set_target(cast, "phone", max_memory_bytes=64 << 20)
    far = {"absolute": 0.5, "relative": 0.5, "of_tolerance": 50.0}
    half = measured(dtype="float16", difference=None)
    register(cast, report(measured(), half, measured(dtype="bfloat16", difference=far)))
    text = " ".join(page(browser, cast.viewer).split())
    assert "<b>edge</b> at most 5 ms (p95); torchscript" in text
    assert "3.25 ms" in text
    assert "300 MiB" in text
    assert "8 samples on cpu, 2 threads" in text
    assert "its process takes 300 MiB, at most 64 MiB" in text
    assert "as the original" in text
    assert "not compared" in text
    assert "differs from the original</span>" in text


def test_a_page_without_exports_shows_none(cast: Cast, browser: Browser) -> None:
    version = register(cast, report(measured()))
    ModelVersion.objects.filter(id=version.id).update(exports={})
    text = page(browser, cast.viewer)
    assert "Exports of version" not in text
    assert "Serving targets" not in text


def test_targets_are_set_changed_listed_and_deleted(cast: Cast, api: Api) -> None:
    lead, address = api(cast.lead), "/api/v1/serving-targets/vision/edge"
    assert lead.put(address, {"max_latency_ms": 5, "dtype": "float16"}, format="json").status_code == 200
    lead.put(address, {"max_latency_ms": 7}, format="json")
    [row] = api(cast.viewer).get("/api/v1/serving-targets").json()["results"]
    assert (row["team"], row["name"], row["constraints"]) == ("vision", "edge", {"max_latency_ms": 7.0})
    refused = lead.put(address, {"max_latency": 5}, format="json")
    assert refused.status_code == 400
    assert "max_latency_ms" in refused.json()["detail"]
    assert lead.delete(address).status_code == 204
    assert lead.delete(address).status_code == 404


def test_a_team_has_a_bounded_number_of_targets(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST_TARGETS", 1)
    set_target(cast, "edge")
    set_target(cast, "edge", max_latency_ms=1)
    with pytest.raises(TrainmasterError, match="as many as it may have"):
        set_target(cast, "phone")


def test_a_report_is_read_again_and_without_one_nothing_is_done(
    cast: Cast, api: Api, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webapp.registry.hints.current_app.send_task", lambda name, ids: asked.append(name))
    register(cast, report(measured()))
    alice = actor_of(cast.owner)
    upload = artifacts.start_upload(alice, "vision", "model", "bare")
    artifacts.receive_file(alice, upload.id, "weights.bin", io.BytesIO(b"weights"))
    services.register(alice, "vision", "mlp", manifest=artifacts.complete_upload(alice, upload.id).id)
    owner, address = api(cast.owner), "/api/v1/models/vision/mlp/versions"
    with django_capture_on_commit_callbacks(execute=True):
        assert owner.post(f"{address}/2/exports", {}, format="json").json()["report"] is None
    assert asked == []
    with django_capture_on_commit_callbacks(execute=True):
        assert owner.post(f"{address}/1/exports", {}, format="json").status_code == 202
    assert asked == ["registry.read_exports"]


def test_a_job_reads_what_its_serving_target_asks(cast: Cast, api: Api, cluster: list[Node]) -> None:
    set_target(cast, max_latency_ms=5, dtype="bfloat16", formats=["onnx"])
    body = {**SPEC, "num_gpus": 1, "serving_target": "edge"}
    job = api(cast.owner).post("/api/v1/training-jobs", body, format="json").json()["id"]
    tick()
    attempt = Attempt.objects.get(job=job)
    orders = [order for state in wanted_states([node.id for node in cluster]) for order in state.attempts]
    [launch] = [order.launch for order in orders if order.attempt_id == attempt.id and order.launch]
    target = serving_environment(dict(launch.environment))
    assert target is not None
    assert (target.name, target.max_latency_ms, target.dtype) == ("edge", 5, "bfloat16")
    assert target.formats == {"onnx"}


def test_a_job_for_a_target_that_the_team_does_not_have_is_refused(
    cast: Cast, api: Api, cluster: list[Node]
) -> None:
    set_target(cast, "phone")
    refused = api(cast.owner).post("/api/v1/training-jobs", {**SPEC, "serving_target": "edge"}, format="json")
    [problem] = refused.json()["problems"]
    assert problem == {
        "field": "serving_target", "sentence": "Team vision has no serving target edge; it has phone.",
    }  # fmt: skip
