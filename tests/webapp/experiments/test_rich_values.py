"""Images, tables, histograms, texts and sounds of a run: kept once, listed by step, never run as a page."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings, settings
from django.core.files.uploadedfile import SimpleUploadedFile

from platform_core.errors import TrainmasterError
from platform_core.experiments import rich_values as core
from tests.webapp.conftest import Cast, with_token
from tests.webapp.world import PNG
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import rich_values, services
from webapp.experiments.models import RichValue, Run

Who = Callable[[User], Actor]


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def run(alice: Actor) -> Run:
    return services.create_run(alice, services.create_experiment(alice, "vision", "digits"))


def text(content: str, key: str = "notes", step: int = 1, index: int = 0) -> core.RichValue:
    return core.checked(key=key, step=step, index=index, kind="text", at_ms=1, document={"text": content})


def image(data: bytes = PNG, step: int = 1) -> core.RichValue:
    return core.checked(key="sample", step=step, index=0, kind="image", at_ms=1, data=data)


def test_values_are_found_by_key_step_and_index(alice: Actor, run: Run) -> None:
    for step in (10, 20):
        for index in range(2):
            services.log_value(alice, run, text(f"{step} {index}", step=step, index=index))
    services.log_value(alice, run, image())
    assert [
        (key.key, key.kind, key.values, key.first_step, key.last_step) for key in rich_values.keys(alice, run)
    ] == [
        ("notes", "text", 4, 10, 20),
        ("sample", "image", 1, 1, 1),
    ]
    assert rich_values.steps(alice, run, "notes") == [10, 20]
    assert [value.document for value in rich_values.at_step(alice, run, "notes", 20)] == [
        {"text": "20 0"},
        {"text": "20 1"},
    ]
    assert rich_values.find(alice, run, "notes", 10, 1).document == {"text": "10 1"}
    with pytest.raises(TrainmasterError, match="no value notes of step 11"):
        rich_values.find(alice, run, "notes", 11)


def test_the_same_value_again_changes_nothing(alice: Actor, run: Run) -> None:
    first = services.log_value(alice, run, image())
    again = services.log_value(alice, run, image())
    assert (again.pk, again.place) == (first.pk, first.place)
    assert b"".join(rich_values.read(again, 0, again.size)) == PNG


def test_another_image_at_the_same_place_leaves_no_bytes_behind(alice: Actor, run: Run) -> None:
    services.log_value(alice, run, image())
    services.log_value(alice, run, image(PNG + b"other"))
    store = open_store(settings.STORE_URL)
    assert [entry.size for entry in store.list(f"values/{run.id}/")] == [len(PNG) + 5]


def test_a_later_attempt_replaces_and_an_earlier_one_never_comes_back(run: Run) -> None:
    for attempt, content in ((2, "second"), (1, "first"), (2, "second again")):
        services.ingest_value(run.id, attempt, text(content))
    assert RichValue.objects.get(run=run).document == {"text": "second again"}


def test_a_value_of_a_run_that_is_gone_is_dropped(db: None) -> None:
    services.ingest_value("job-0000000000000000", 1, text("late"))
    assert not RichValue.objects.exists()


def test_a_team_keeps_no_more_bytes_than_it_may(alice: Actor, run: Run, settings: LazySettings) -> None:
    settings.TEAM_UPLOAD_LIMIT_BYTES = len(PNG)
    services.log_value(alice, run, image())
    with pytest.raises(TrainmasterError, match="Delete runs"):
        services.log_value(alice, run, image(step=2))


def test_a_run_keeps_no_more_values_than_it_may(
    alice: Actor, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "MAX_VALUES", 1)
    services.log_value(alice, run, text("one"))
    services.log_value(alice, run, text("one, replaced"))
    with pytest.raises(TrainmasterError, match="2 values"):
        services.log_value(alice, run, text("two", step=2))


def test_deleting_removes_rows_and_bytes(alice: Actor, run: Run) -> None:
    services.log_value(alice, run, image())
    rich_values.delete_of([run.id])
    assert not RichValue.objects.exists()
    assert list(open_store(settings.STORE_URL).list(f"values/{run.id}/")) == []


def test_an_image_is_shown_and_a_sound_is_saved_and_neither_is_a_page(cast: Cast, run: Run) -> None:
    client = with_token(cast.owner)
    address = f"/api/v1/runs/{run.id}/values"
    html_after_magic = PNG + b"<script>alert(1)</script>"
    sent: Any = {
        "key": "sample", "step": "3", "type": "image", "file": SimpleUploadedFile("x.html", html_after_magic),
    }  # fmt: skip
    made = client.post(address, sent)
    assert made.status_code == 201, made.content
    shown = client.get(f"{address}/{made.json()['id']}/file")
    assert shown.content == html_after_magic
    assert shown["Content-Type"] == "image/png"
    assert shown["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in shown["Content-Security-Policy"]
    assert shown["Content-Disposition"] == 'inline; filename="sample-3-0.png"'
    sound: Any = {
        "key": "voice",
        "step": "3",
        "type": "audio",
        "file": SimpleUploadedFile("x.ogg", b"OggS..."),
    }
    made = client.post(address, sound)
    saved = client.get(f"{address}/{made.json()['id']}/file")
    assert saved["Content-Type"] == "audio/ogg"
    assert saved["Content-Disposition"].startswith("attachment")


def test_a_page_that_calls_itself_an_image_is_refused(cast: Cast, run: Run) -> None:
    sent: Any = {"key": "k", "step": "1", "type": "image", "file": SimpleUploadedFile("a.png", b"<html>")}
    refused = with_token(cast.owner).post(f"/api/v1/runs/{run.id}/values", sent)
    assert refused.status_code == 400
    assert "PNG, JPEG, GIF or WebP" in refused.json()["detail"]
    body = {"key": "k", "step": 1, "type": "html", "document": {"html": "<b>"}}
    refused = with_token(cast.owner).post(
        f"/api/v1/runs/{run.id}/values", json.dumps(body), content_type="application/json"
    )
    assert refused.status_code == 400
    assert "scripts would run as the reader" in refused.json()["detail"]


def test_documents_come_compressed_and_go_by_step(cast: Cast, run: Run) -> None:
    client = with_token(cast.owner)
    address = f"/api/v1/runs/{run.id}/values"
    for step in (1, 5):
        body = {
            "key": "bins",
            "step": step,
            "type": "histogram",
            "document": {"counts": [step], "edges": [0, 1]},
        }
        answer = client.post(
            address, gzip.compress(json.dumps(body).encode()), content_type="application/json",
            headers={"Content-Encoding": "gzip"},
        )  # fmt: skip
        assert answer.status_code == 201, answer.content
    assert client.get(address).json()["keys"][0]["last_step"] == 5
    newest = client.get(f"{address}?key=bins").json()
    assert newest["steps"] == [1, 5]
    assert newest["results"][0]["document"]["counts"] == [5]
    assert client.get(f"{address}?key=bins&step=1").json()["results"][0]["document"]["counts"] == [1]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not gzip", 400),
        (gzip.compress(b"{}")[:-4], 400),
        (gzip.compress(b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)), 413),
    ],
    ids=["not gzip", "torn", "explodes"],
)
def test_a_compressed_body_that_is_torn_or_explodes_is_refused(
    cast: Cast, run: Run, body: bytes, status: int
) -> None:
    answer = with_token(cast.owner).post(
        f"/api/v1/runs/{run.id}/values",
        body,
        content_type="application/json",
        headers={"Content-Encoding": "gzip"},
    )
    assert answer.status_code == status
