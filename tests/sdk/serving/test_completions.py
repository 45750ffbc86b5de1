"""One conformance suite for all servers of texts: a class of one's own, and vLLM, whose HTTP a stand-in speaks.

Completions are asked for as OpenAI's clients do it, over a socket.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sdk.serving import models
from tests.sdk.serving.processes import STAND_IN, Server, serving

RUNTIMES = ("python", "vllm")
WRITTEN = "n0 n1 n2 "
ASKED = {"model": "writer", "prompt": "n", "max_tokens": 3}


@pytest.fixture(scope="module", params=RUNTIMES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    options = ["--runtime", request.param, "--name", "writer"]
    if request.param == "python":
        options += ["--entry", models.writer(folder)]
    else:
        (folder / "config.json").write_text("{}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(folder, port, *options, PYTHONPATH=STAND_IN) as server:
        yield server


def events(server: Server, asked: dict[str, Any]) -> list[str]:
    with server.client.stream("POST", "/v1/completions", json=asked | {"stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in answer.iter_lines() if line]


def test_it_names_its_model(server: Server) -> None:
    listed = server.client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [(model["id"], model["object"]) for model in listed["data"]] == [("writer", "model")]


def test_a_completion_is_one_document(server: Server) -> None:
    answer = server.client.post("/v1/completions", json=ASKED)
    document = answer.json()
    assert answer.status_code == 200
    assert (document["object"], document["model"]) == ("text_completion", "writer")
    assert document["id"].startswith("cmpl-")
    assert isinstance(document["created"], int)
    [choice] = document["choices"]
    assert (choice["index"], choice["text"]) == (0, WRITTEN)
    assert choice["finish_reason"] in ("stop", "length")


def test_a_stream_is_events_that_end_with_done(server: Server) -> None:
    *parts, done = events(server, ASKED)
    assert done == "[DONE]"
    documents = [json.loads(part) for part in parts]
    assert {document["object"] for document in documents} == {"text_completion"}
    choices = [document["choices"][0] for document in documents]
    assert "".join(choice["text"] for choice in choices) == WRITTEN
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] in ("stop", "length")


def test_a_request_that_is_none_is_refused(server: Server) -> None:
    answer = server.client.post("/v1/completions", json=ASKED | {"prompt": {"no": "text"}})
    assert answer.status_code == 400
    assert "prompt" in json.dumps(answer.json()["error"])


def test_a_caller_that_leaves_keeps_nobody_waiting(server: Server) -> None:
    asked = ASKED | {"max_tokens": 4000, "stream": True}
    with server.client.stream("POST", "/v1/completions", json=asked) as answer:
        assert next(answer.iter_lines()).startswith("data: {")
    assert server.client.post("/v1/completions", json=ASKED).json()["choices"][0]["text"] == WRITTEN


def test_it_says_when_it_can_be_asked(server: Server) -> None:
    for state in ("live", "ready"):
        answer = server.client.get(f"/v2/health/{state}")
        assert (answer.status_code, answer.json()) == (200, {state: True})
