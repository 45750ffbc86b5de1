"""Reports from a program: what the pages do, over REST."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import User

Api = Callable[[User], APIClient]


@pytest.fixture
def client(owner: User, api: Api) -> APIClient:
    return api(owner)


@pytest.fixture
def report(client: APIClient) -> Any:
    body = {"team": "vision", "title": "Rates", "text": "# Why\n"}
    answer = client.post("/api/v1/reports", body, format="json")
    assert answer.status_code == 201
    return answer.json()


def patch(client: APIClient, report: Any, **body: Any) -> Any:
    return client.patch(f"/api/v1/reports/{report['id']}", body, format="json")


def test_a_report_is_written_changed_and_an_earlier_version_restored(client: APIClient, report: Any) -> None:
    assert (report["version"], report["text"]) == (1, "# Why\n")
    changed = patch(client, report, version=1, text="# Because").json()
    assert (changed["version"], changed["title"], changed["text"]) == (2, "Rates", "# Because")
    one = f"/api/v1/reports/{report['id']}"
    assert [version["number"] for version in client.get(f"{one}/versions").json()["results"]] == [2, 1]
    assert client.get(f"{one}/versions/1").json()["text"] == "# Why\n"
    assert client.post(f"{one}/versions/1/restore").json()["version"] == 3
    assert client.get(one).json()["text"] == "# Why\n"


def test_a_change_of_a_version_that_is_no_longer_the_newest_is_refused(
    client: APIClient, report: Any
) -> None:
    patch(client, report, version=1, text="mine")
    refused = patch(client, report, version=1, text="theirs")
    assert refused.status_code == 409
    assert refused.json()["code"] == "stale_version"


def test_a_deleted_report_is_listed_as_such_and_restored(client: APIClient, report: Any) -> None:
    one = f"/api/v1/reports/{report['id']}"
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404
    assert client.get("/api/v1/reports").json()["results"] == []
    [deleted] = client.get("/api/v1/reports", {"deleted": "true", "search": "rate"}).json()["results"]
    assert deleted["id"] == report["id"]
    assert client.post(f"{one}/restore").json()["deleted_ms"] is None


def test_comments_are_added_listed_and_deleted(client: APIClient, report: Any) -> None:
    comments = f"/api/v1/reports/{report['id']}/comments"
    made = client.post(comments, {"text": "seed 4?"}, format="json").json()
    assert [line["text"] for line in client.get(comments).json()["results"]] == ["seed 4?"]
    assert client.delete(f"{comments}/{made['id']}").status_code == 204
    assert client.get(comments).json()["results"] == []


def test_a_link_opens_the_report_without_an_account_until_it_is_revoked(
    client: APIClient, report: Any
) -> None:
    links = f"/api/v1/reports/{report['id']}/links"
    made = client.post(links, {"days": 7}, format="json").json()
    address = made["url"][made["url"].index("/reports/") :]
    assert "Why" in Client().get(address).content.decode()
    [listed] = client.get(links).json()["results"]
    assert "url" not in listed
    assert client.delete(f"{links}/{made['id']}").status_code == 204
    assert Client().get(address).status_code == 404


@pytest.mark.parametrize("days", [0, 366, "soon"])
def test_a_link_for_too_few_or_too_many_days_is_refused(client: APIClient, report: Any, days: Any) -> None:
    links = f"/api/v1/reports/{report['id']}/links"
    assert client.post(links, {"days": days}, format="json").status_code in (400, 422)
