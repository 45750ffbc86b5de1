"""How often a person may ask does not depend on how the token is spelled, nor on what strangers do."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from webapp.accounts.permissions import Actor
from webapp.router import callers
from webapp.router.application import Router
from webapp.router.callers import Callers
from webapp.router.refusals import Refused

ALICE = Actor("alice", {})


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def look_up(token: str) -> Actor | None:
        asked.append(token)
        return ALICE if token.startswith("of-alice") else None

    monkeypatch.setattr(callers, "_look_up", look_up)
    return asked


def passed(known: Callers, name: str) -> bool:
    return known.wait_seconds("ep-1", name, 60) == 0


def test_many_tokens_of_a_person_share_one_rate() -> None:
    known = Callers()
    assert sum(passed(known, "alice") for _ in range(400)) <= 11
    assert passed(known, "bob")


def test_a_flood_of_other_callers_resets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MOST_KEPT", 100)
    known = Callers()
    for _ in range(20):
        passed(known, "alice")
    for number in range(99):
        passed(known, f"person-{number}")
    assert not passed(known, "alice")


async def test_a_flood_of_wrong_tokens_pushes_out_no_right_one(
    looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "MOST_KEPT", 50)
    known = Callers()
    assert await known.actor("of-alice") == ALICE
    for number in range(200):
        assert await known.actor(f"wrong-{number}") is None
    assert await known.actor("of-alice") == ALICE
    assert looked_up.count("of-alice") == 1
    assert (len(known._known), len(known._strangers)) == (1, 50)


@pytest.mark.parametrize("blanks", [" ", "  ", "\t", "   \t ", " " * 50])
async def test_blanks_before_a_token_make_no_other_caller(
    blanks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router()
    route: Any = SimpleNamespace(endpoint_id="ep-1", rate_limit=60, name="mlp")
    router._state = SimpleNamespace(routes={("vision", "mlp"): route})  # type: ignore[assignment]
    monkeypatch.setattr(callers, "_look_up", lambda token: ALICE)
    monkeypatch.setattr("webapp.router.application.may_call", lambda actor, team: True)
    passed = 0
    for number in range(400):
        headers = {b"authorization": f"Bearer {blanks * (number % 7 + 1)}of-alice"}
        with suppress(Refused):
            await router.route("/endpoints/vision/mlp/predict", headers)
            passed += 1
    assert passed <= 11
