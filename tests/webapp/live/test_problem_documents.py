from collections.abc import Callable

from rest_framework.test import APIClient

from tests.webapp.conftest import Cast

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
