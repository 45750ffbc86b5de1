"""Exports are measured on the slots of a serving target by a job, and what it measured decides there."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import cluster
from tests.webapp.registry.test_exports import measured, register, report, set_target
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.jobs.models import Job
from webapp.jobs.queries import reports
from webapp.nodes.models import Node
from webapp.registry import exports, measuring
from webapp.registry.models import ExportMeasurement, ModelVersion

__all__ = ["cluster"]
Api = Callable[..., APIClient]
Browser = Callable[[User], Client]


@pytest.fixture
def version(cast: Cast, cluster: list[Node]) -> ModelVersion:
    set_target(cast, "edge", max_latency_ms=5, gpu_type="cpu")
    return register(cast, report(measured(p95_ms=1.0)))


def verdict(version: ModelVersion) -> tuple[str, tuple[str, ...]]:
    [row] = exports.targets(["vision"])
    found = exports.verdict(version, exports.target_of(row))
    return (found.export.format if found.export else "", found.reasons)


def ends(monkeypatch: pytest.MonkeyPatch, document: bytes | None, state: str = "succeeded") -> None:
    """The job ends, having handed over this."""
    row = ExportMeasurement.objects.latest("pk")
    Job.objects.filter(id=row.job_id).update(state=state, finished_ms=1)
    monkeypatch.setattr("webapp.registry.measuring.experiments.handed_over", lambda *_: document)
    assert reports([str(row.job_id)])[str(row.job_id)].drained
    measuring.follow_all()


def test_what_a_job_measured_on_the_slots_of_the_target_decides(
    cast: Cast, version: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(version) == ("", ("its exports are being measured on cpu",))
    measuring.follow_all()
    measuring.follow_all()
    job = Job.objects.get()
    assert (job.gpu_type, job.spec["model"], job.name) == ("cpu", "mlp:1", "exports of mlp:1 on cpu")
    assert job.spec["command"] == ["python", "-m", "trainmaster.model_export.measure"]
    assert job.user.username == cast.owner.username
    ends(monkeypatch, report(measured(p95_ms=7.5)))  # slower than where it was exported
    assert verdict(version) == ("", ("torchscript: its latency is 7.5 ms (p95), at most 5 ms",))
    set_target(cast, "edge", max_latency_ms=8, gpu_type="cpu")  # what was measured is judged anew
    assert verdict(version) == ("torchscript", ())


def test_another_type_of_slot_needs_a_measurement_of_its_own(
    cast: Cast, version: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring.follow_all()
    ends(monkeypatch, report(measured()))
    set_target(cast, "edge", max_latency_ms=5, gpu_type="a100")
    assert verdict(version) == ("", ("its exports were not measured on a100",))
    set_target(cast, "edge", max_latency_ms=5)
    assert verdict(version) == ("torchscript", ())


@pytest.mark.parametrize(
    ("state", "document", "why"),
    [
        ("failed", None, "its job failed"),
        ("succeeded", None, "its job left none"),
        ("succeeded", b"{", "Expecting property name"),
        ("succeeded", b"{}", "it must be a list"),
    ],
)
def test_a_measurement_that_failed_says_why_and_is_asked_for_again(
    cast: Cast,
    version: ModelVersion,
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    document: Any,
    why: str,
) -> None:
    measuring.follow_all()
    ends(monkeypatch, document, state)
    (_, (reason,)) = verdict(version)
    assert reason.startswith("its exports could not be measured on cpu: ")
    assert why in reason
    address = "/api/v1/models/vision/mlp/versions/1/exports"
    again = api(cast.owner).post(address, {"target": "edge"}, format="json")
    assert again.status_code == 202
    [target] = again.json()["targets"]
    assert (target["measurement"]["state"], target["measurement"]["number"]) == ("waiting", 2)


def test_a_file_that_was_not_registered_does_not_count_where_it_was_measured(
    cast: Cast, cluster: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_target(cast, "edge", gpu_type="cpu")
    version = register(cast, report(measured()), weights=b"another program")
    measuring.follow_all()
    ends(monkeypatch, report(measured(), measured(file="smuggled.ts", format="onnx")))
    (_, (reason,)) = verdict(version)
    assert "is another one than was measured" in reason


def test_a_type_that_the_cluster_lacks_is_said(cast: Cast, cluster: list[Node]) -> None:
    set_target(cast, "edge", gpu_type="tpu")
    version = register(cast, report(measured()))
    measuring.follow_all()
    (_, (reason,)) = verdict(version)
    assert "tpu" in reason


def test_nothing_is_measured_without_a_type_or_a_report(cast: Cast, cluster: list[Node]) -> None:
    set_target(cast, "phone")
    set_target(cast, "edge", gpu_type="cpu")
    alice = actor_of(cast.owner)
    whole = register(cast, report(measured()))
    with pytest.raises(TrainmasterError, match="names no GPU type"):
        exports.measure(alice, whole, "phone")
    with pytest.raises(TrainmasterError, match="serving target desk"):
        exports.measure(alice, whole, "desk")
    broken = register(cast, b"{")
    with pytest.raises(TrainmasterError, match="no report of exports"):
        exports.measure(alice, broken, "edge")
    assert ExportMeasurement.objects.count() == 1


def test_the_page_shows_it_and_measures_again(
    cast: Cast, version: ModelVersion, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring.follow_all()
    document = json.loads(report(measured()))
    ends(monkeypatch, json.dumps({**document, "device": "NVIDIA L4"}).encode())
    page = " ".join(browser(cast.viewer).get("/models/vision/mlp/").content.decode().split())
    assert "NVIDIA L4; torchscript 3.25 ms (p95), 300 MiB" in page
    assert "Measure on cpu" not in page
    owner = browser(cast.owner)
    answer = owner.post("/models/vision/mlp/1/measure/", {"target": "edge"}, follow=True)
    assert "A job measures the exports of version 1 on cpu." in answer.content.decode()
    assert ExportMeasurement.objects.latest("pk").number == 2


def test_the_form_says_what_is_wrong_in_its_own_words(cast: Cast, browser: Browser) -> None:
    fields = {"team": "vision", "name": "edge", "max_latency_ms": "fast"}
    answer = browser(cast.lead).post("/models/targets/set/", fields)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Maximum latency &#x27;fast&#x27; is not valid: it must be a number" in page
    assert json.dumps("max_latency_ms 'fast'") not in page
