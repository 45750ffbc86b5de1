"""The OpenAPI document says what the API answers: lists in `results`, refusals as problem documents."""

import json
from typing import Any

import pytest
from django.conf import settings
from drf_spectacular.drainage import reset_generator_stats
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from platform_core.jobs.states import JobState
from tests.webapp.conftest import Cast, with_token
from tests.webapp.world import build
from webapp.rest.openapi import SPECS


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)


def test_the_document_is_made_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    reset_generator_stats()
    SchemaGenerator().get_schema(request=None, public=True)
    assert capsys.readouterr().err == ""


def test_each_set_of_states_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert set(settings.SPECTACULAR_SETTINGS["ENUM_NAME_OVERRIDES"]) <= set(schemas)
    assert schemas["JobState"]["enum"] == list(JobState)
    assert [name for name in schemas if name.endswith("Enum")] == []


def test_a_document_changes_neither_the_schemas_of_the_core_nor_the_next_document(
    document: dict[str, Any],
) -> None:
    schemas = SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]
    assert schemas == document["components"]["schemas"]
    assert "#/components" not in json.dumps(SPECS)
    assert schemas.keys() >= SPECS.keys()


def test_every_operation_may_answer_with_a_problem_document(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert "application/problem+json" in operation["responses"]["default"]["content"], (
                f"{method} {path}"
            )


def test_lists_answer_in_the_shape_that_is_documented(document: dict[str, Any], cast: Cast) -> None:
    build(cast)
    client: APIClient = with_token(cast.owner)
    checked = 0
    for path, methods in document["paths"].items():
        schema = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if "{" in path or not schema or path.endswith("/schema"):
            continue
        shape = schema["application/json"]["schema"]
        known = (
            document["components"]["schemas"][shape["$ref"].rpartition("/")[2]] if "$ref" in shape else shape
        )
        answer = client.get(path)
        if answer.status_code == 200:
            assert known["type"] == "object", path
            assert set(known.get("required", ())) <= answer.json().keys(), path
            checked += 1
    assert checked >= 7
