"""The page of the REST API."""

from collections.abc import Callable

import pytest
from django.test import Client

from webapp.accounts.models import User
from webapp.pages.api_docs.views import groups


@pytest.fixture
def page(browser: Callable[[User], Client], owner: User) -> str:
    return browser(owner).get("/api/docs/").content.decode()


def test_every_operation_of_the_document_stands_on_it(page: str, client: Client) -> None:
    document = client.get("/api/v1/schema", headers={"Accept": "application/json"}).json()
    operations = [told["operationId"] for methods in document["paths"].values() for told in methods.values()]
    assert len(operations) > 20
    for operation in operations:
        assert f'id="{operation}"' in page


def test_an_operation_says_what_it_takes_and_what_comes_back() -> None:
    operations = {one["id"]: one for group in groups() for one in group["operations"]}
    listed = operations["training_jobs_list"]
    [cursor] = [parameter for parameter in listed["parameters"] if parameter["name"] == "cursor"]
    assert (cursor["where"], cursor["type"], cursor["required"]) == ("query", "string", False)
    answer, refusal = listed["answers"]
    assert refusal["code"] == "default"
    assert {"id", "state", "num_gpus"} <= {field["name"] for field in answer["fields"]}
    assert [answer["code"] for answer in operations["training_jobs_create"]["answers"]] == [
        "200",
        "201",
        "default",
    ]


def test_the_type_of_a_problem_leads_to_its_line_in_the_catalogue(
    browser: Callable[[User], Client], owner: User
) -> None:
    problem = browser(owner).get("/api/v1/training-jobs/job-none").json()
    address, _, anchor = problem["type"].partition("#")
    assert anchor == problem["code"] == "not_found"
    assert f'id="{anchor}"' in browser(owner).get(address).content.decode()
