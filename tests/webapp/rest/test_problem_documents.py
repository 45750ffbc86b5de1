from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping

Api = Callable[..., APIClient]


def test_each_field_that_a_body_lacks_has_its_sentence(cast: Cast, api: Api) -> None:
    answer = api(cast.owner).post("/api/v1/deployments", {"version": "x"}, format="json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert (body["code"], body["title"]) == ("request_invalid", "The request is not valid")
    assert {problem["field"] for problem in body["problems"]} == {"model_id", "version"}
    assert "ErrorDetail" not in str(body)


def test_an_unknown_method_is_told_in_words(cast: Cast, api: Api) -> None:
    body = api(cast.owner).delete("/api/v1/me").json()
    assert (body["status"], body["title"]) == (405, "Method Not Allowed")
    assert body["detail"] == 'Method "DELETE" not allowed.'


def test_a_body_that_is_not_json_is_a_bad_request(cast: Cast, api: Api) -> None:
    answer = api(cast.owner).post("/api/v1/deployments", "{", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "request_invalid")


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/training-jobs/job%00", "/api/v1/deployments/%00", "/api/v1/training-jobs?team=%00",
        "/api/v1/training-jobs?cursor=cD0lMDA%3D", "/api/v1/training-jobs?cursor=cD1hYmM%3D",
        "/api/v1/training-jobs/job-1?x=%00",
    ],
)  # fmt: skip
def test_an_address_that_names_nothing_possible_is_a_bad_request(cast: Cast, api: Api, address: str) -> None:
    answer = api(cast.owner).get(address)
    assert (answer.status_code, answer.json()["code"]) == (400, "request_invalid")


def test_a_page_whose_address_has_a_nul_is_a_bad_request(cast: Cast, browser: Callable[..., Client]) -> None:
    for address in ("/jobs/?search=%00", "/models/vision/a%00/", "/audit/?team=%00"):
        assert browser(cast.owner).get(address).status_code == 400


def test_a_form_with_a_nul_is_a_bad_request(cast: Cast, browser: Callable[..., Client]) -> None:
    for address in ("/models/register/", "/deployments/create/", "/jobs/check/"):
        form = {"team": "vision", "name": "x", "model_version": "a\0", "gpu_type": "a\0", "checkpoint": "a\0"}
        assert (
            browser(cast.owner)
            .post(address, urlencode(form), "application/x-www-form-urlencoded")
            .status_code
            == 400
        )


def test_a_body_nested_beyond_reason_is_a_bad_request(cast: Cast, api: Api) -> None:
    answer = api(cast.owner).post("/api/v1/training-jobs", "[" * 100_000, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "request_invalid")


def test_a_body_beyond_the_limit_is_told_the_limit(cast: Cast, api: Api) -> None:
    body = '{"name": "' + "a" * (10 * 2**20) + '"}'
    answer = api(cast.owner).post("/api/v1/training-jobs", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "10 MiB" in answer.json()["detail"]


def test_a_body_of_another_type_is_told_so(cast: Cast, api: Api) -> None:
    answer = api(cast.owner).post(
        "/api/v1/training-jobs", "name=x", content_type="application/x-www-form-urlencoded"
    )
    assert answer.status_code == 415


@pytest.mark.parametrize("key", ["", "k" * 201, "k\u00ff"])
def test_an_idempotency_key_that_cannot_be_kept_is_refused(cast: Cast, api: Api, key: str) -> None:
    answer = api(cast.owner).post(
        "/api/v1/training-jobs", job_mapping(), format="json", HTTP_IDEMPOTENCY_KEY=key
    )
    assert (answer.status_code, "Idempotency-Key" in answer.json()["detail"]) == (400, True)
