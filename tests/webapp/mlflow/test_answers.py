"""The answers of this server beside those that a real MLflow server gave to the same requests, field by field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.mlflow.conftest import token_of
from tools import mlflow_answers, mlflow_differences


def sender(token: str) -> mlflow_answers.Send:
    client, headers = Client(raise_request_exception=False), {"Authorization": f"Bearer {token}"}

    def send(method: str, address: str, body: Any) -> tuple[int, str, bytes]:
        if method == "GET":
            response: Any = client.get(address, body or {}, headers=headers)
        else:
            data = body if isinstance(body, str) else json.dumps(body)
            kind = mlflow_answers.content_type(body)
            if body is None:
                data, kind = "", ""
            response = client.generic(method, address, data, content_type=kind, headers=headers)
        content = b"".join(response) if response.streaming else response.content
        return response.status_code, response.headers.get("Content-Type", ""), content

    return send


def differences(theirs: Any, ours: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from differences(
                theirs.get(key, "<none>"), ours.get(key, "<none>"), f"{place}.{key}".strip(".")
            )
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif theirs != ours:
        yield place, theirs, ours


@pytest.mark.parametrize("scenario", mlflow_answers.scenarios([]), ids=lambda path: path.stem)
def test_the_answers_are_those_of_a_real_server(scenario: Path, cast: Cast) -> None:
    theirs = mlflow_answers.recorded(scenario)
    ours = list(mlflow_answers.replay(scenario, sender(token_of(cast.owner))))
    assert [label for label, *_ in ours] == [label for label, *_ in theirs], "record the answers anew"
    found = [
        f"{label}\n    {place}: {one!r}\n    here: {other!r}"
        for (label, status, body), (_, our_status, our_body) in zip(theirs, ours, strict=True)
        for place, one, other in differences(
            {"status": status, "body": body}, {"status": our_status, "body": our_body}
        )
        if not mlflow_differences.reason(label, place, (status, body), (our_status, our_body), one)
    ]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
