"""Names of artifacts: what one door takes the other takes, and no file overwrites another."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.mlflow.conftest import Mlflow
from webapp.accounts.models import User

Api = Callable[[User], APIClient]


def address(experiment: str, run_id: str, name: str) -> str:
    return f"/api/2.0/mlflow-artifacts/artifacts/{experiment}/{run_id}/artifacts/{quote(name)}"


def names_of(alice: Mlflow, run_id: str) -> set[str]:
    listed = alice.done("GET", "artifacts/list", {"run_id": run_id})
    return {file["path"] for file in listed.get("files", [])}


def test_names_that_differ_in_their_quoting_are_different_files(
    alice: Mlflow, experiment: str, run_id: str
) -> None:
    names = {"img%20a.png", "img a.png", "50%41.txt", "50A.txt", "100%.txt", "100%25.txt"}
    for name in names:
        assert alice.ask("PUT", address(experiment, run_id, name), name.encode()).status_code == 200
    assert names_of(alice, run_id) == names
    for name in names:
        assert b"".join(alice.ask("GET", address(experiment, run_id, name))) == name.encode()
        by_run = alice.ask("GET", "/get-artifact", {"run_id": run_id, "path": name})
        assert b"".join(by_run) == name.encode()


@pytest.mark.parametrize(
    "name",
    [
        "2026-11-28T10:30:00.txt",
        "9:30/at 10:00.txt",
        "a+b=c&d.txt",
        "ünïcode/é.txt",
        "x" * 255,
        "a/b/c.txt",
        "%",
        "~",
    ],
)
def test_what_one_door_takes_the_other_takes(
    cast: Cast, api: Api, alice: Mlflow, experiment: str, run_id: str, name: str
) -> None:
    rest = f"/api/v1/runs/{run_id}/files/{quote(name)}"
    assert alice.ask("PUT", address(experiment, run_id, name), b"mlflow").status_code == 200
    assert b"".join(api(cast.owner).get(rest)) == b"mlflow"  # type: ignore[arg-type]
    sent = api(cast.owner).put(rest, b"rest", content_type="application/octet-stream")
    assert sent.status_code in (200, 201)
    assert b"".join(alice.ask("GET", address(experiment, run_id, name))) == b"rest"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("c:d.txt", "has a part that begins like a drive (c:)"),
        ("model/c:d.txt", "has a part that begins like a drive (c:)"),
        ("a/Z:", "has a part that begins like a drive (Z:)"),
        ("a\\b.txt", "must be relative, with forward slashes"),
        ("a//b.txt", "has an empty, '.' or '..' part"),
        ("a/./b", "has an empty, '.' or '..' part"),
        ("a/../b", "has an empty, '.' or '..' part"),
        ("x" * 256, "and 255 for each part"),
        ("a\tb", "has a control character"),
    ],
)
def test_what_one_door_refuses_the_other_refuses_with_the_same_reason(
    cast: Cast, api: Api, alice: Mlflow, experiment: str, run_id: str, name: str, reason: str
) -> None:
    place = f"/api/v1/runs/{run_id}/files/{quote(name)}"
    rest = api(cast.owner).put(place, b"x", content_type="application/octet-stream")
    status, code, sentence = alice.refused("PUT", address(experiment, run_id, name), b"x")
    assert (rest.status_code, status, code) == (400, 400, "INVALID_PARAMETER_VALUE")
    assert reason in rest.json()["detail"]
    assert reason in sentence
    assert names_of(alice, run_id) == set()


@pytest.mark.parametrize("name", ["%2e%2e/a", "%252e%252e/a", "a%5Cb", "%2Fetc", "a%0Ab", "c%3Ad"])
def test_a_name_that_means_another_place_once_unquoted_is_refused(
    alice: Mlflow, experiment: str, run_id: str, name: str
) -> None:
    assert alice.refused("PUT", address(experiment, run_id, name), b"x")[0] == 400
    assert names_of(alice, run_id) == set()


@pytest.mark.parametrize("door", ["PUT", "GET", "DELETE"])
def test_a_name_quoted_again_and_again_is_refused_after_two_rounds(
    alice: Mlflow, experiment: str, run_id: str, door: str
) -> None:
    name = "%" + "25" * 60 + "41"
    body = b"x" if door == "PUT" else None
    assert "quoted more than twice" in alice.refused(door, address(experiment, run_id, name), body)[2]


@pytest.mark.parametrize(
    "address",
    [
        "/api/2.0/mlflow-artifacts/artifacts/" + "%2525" * 12_000,
        "/api/2.0/mlflow-artifacts/artifacts?path=" + "%2525" * 12_000,
        "/api/v1/jobs?search=" + "a" * 60_000,
        "/" + "a" * 60_000,
    ],
)
def test_an_address_of_60_kilobytes_is_refused_before_anything_reads_it(alice: Mlflow, address: str) -> None:
    refused = alice.client.get(address, headers=alice.headers)
    assert (refused.status_code, refused.json()["code"]) == (414, "address_too_long")
