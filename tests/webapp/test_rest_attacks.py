"""Every REST operation takes what its own schema allows and forbids, from each person, and answers as it documents.

The ids in the addresses and the good bodies are those of the table of permissions, so that requests reach what exists.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.webapp.conftest import make_cast, make_teams, of_the_test
from tests.webapp.permission_rows import Row
from tests.webapp.rest_permission_rows import api_rows
from tests.webapp.world import World, build
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.accounts.models import User

pytestmark = pytest.mark.slow

PEOPLE = ("anonymous", "owner", "member", "outsider", "admin")
ROWS = [row for row in api_rows() if row.pattern != "api/v1/schema"]  # the document does not describe itself
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
BOUNDED = settings(
    max_examples=5,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
HOSTILE = (
    None, True, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, "", " ", "\0", "²", "\ud800", "../..", "%2e%2e",
    "x" * 5000, [], [None], [[]], {}, {"": None}, ["a", "a"], 1e400,
)  # fmt: skip


@pytest.fixture(scope="module")
def schema() -> Any:
    document = SchemaGenerator().get_schema(request=None, public=True)
    return schemathesis.openapi.from_dict(document)


@pytest.fixture(scope="module")
def stage(django_db_setup: None, django_db_blocker: Any) -> Iterator[tuple[World, dict[str, str]]]:
    """One of everything, and each person's token. Built once: every request is taken back."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)  # a request would end the transaction around all of them
    with django_db_blocker.unblock(), of_the_test():
        make_teams()
        cast = make_cast()
        yield build(cast), {name: _token(name, getattr(cast, name)) for name in PEOPLE[1:]}
        transaction.set_rollback(True)
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def _token(name: str, user: User) -> str:
    actor = accounts.actor_of(user)
    if name == "admin":
        return tokens.create_admin_token(actor, "tests", 1).text
    return tokens.create_token(actor, "nlp" if name == "outsider" else "vision", "tests", 1).text


def documented_path(row: Row) -> str:
    return "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", row.pattern)


def requests(operation: Any, row: Row, world: World) -> st.SearchStrategy[Case]:
    """What the schema allows and what it forbids, to addresses that exist and to others; and good bodies with one
    field replaced."""
    address = urlsplit(row.url(world))
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(documented_path(row)))
    match = re.fullmatch(pattern, address.path)
    assert match is not None
    real = {"path_parameters": match.groupdict()} if match.groupdict() else {}
    kinds = [operation.as_strategy(**real), operation.as_strategy()]
    if operation.body or operation.query:
        kinds.append(operation.as_strategy(GenerationMode.NEGATIVE, **real))
    if query := dict(parse_qsl(address.query)):
        kinds.append(operation.as_strategy(**real, query=query))
    if good := row.data(world):
        changed = st.tuples(st.sampled_from(sorted(good)), st.sampled_from(HOSTILE[:-1]))
        kinds.append(
            changed.flatmap(
                lambda change: operation.as_strategy(
                    **real, body={**good, change[0]: change[1]}, media_type="application/json"
                )
            )
        )
        kinds.append(operation.as_strategy(**real, body=good, media_type="application/json"))
    return st.one_of(kinds)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} /{row.pattern}")
def test_an_operation_answers_as_documented_whatever_it_is_sent(
    row: Row, name: str, schema: Any, stage: tuple[World, dict[str, str]]
) -> None:
    world, texts = stage
    headers = {"Accept-Encoding": "identity"}  # schemathesis reads what is on the wire
    if name in texts:
        headers["Authorization"] = f"Bearer {texts[name]}"
    operation = schema[documented_path(row)][row.method.upper()]
    operation.app = WSGIHandler()

    @BOUNDED
    @given(case=requests(operation, row, world))
    def attack(case: Case) -> None:
        with of_the_test():
            try:
                case.call_and_validate(headers=headers, checks=CHECKS)
            finally:
                transaction.set_rollback(True)

    attack()


def test_every_documented_operation_is_attacked(schema: Any) -> None:
    documented = {(found.ok().method, found.ok().path) for found in schema.get_all_operations()}
    assert documented == {(row.method, documented_path(row)) for row in ROWS}


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.method != "get"], ids=lambda row: f"{row.method} /{row.pattern}"
)
def test_no_field_of_a_body_takes_a_value_that_breaks_us(
    row: Row, schema: Any, stage: tuple[World, dict[str, str]]
) -> None:
    world, texts = stage
    operation = schema[documented_path(row)][row.method.upper()].definition.raw
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    documented = schema.raw_schema["components"]["schemas"].get(reference, {}).get("properties", {})
    good = row.data(world)
    client = Client(headers={"Authorization": f"Bearer {texts['admin']}"})
    for field in {*good, *documented}:
        for value in HOSTILE:
            body = json.dumps({**good, field: value}).replace(
                "Infinity", "1e400"
            )  # a parser makes infinity of it
            with of_the_test():
                answer = client.generic(
                    row.method.upper(), row.url(world), body, content_type="application/json"
                )
                transaction.set_rollback(True)
            assert answer.status_code < 500, (field, value, answer.content)
