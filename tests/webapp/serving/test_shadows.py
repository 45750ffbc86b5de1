"""A version is tried in the shadow: it gets copies of requests, its answers are compared, and no caller gets them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.serving.canary import CanaryPolicy
from platform_core.serving.latency import BUCKETS
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.router.forwarding import Forwarding
from webapp.router.incoming import Incoming
from webapp.router.state import State
from webapp.serving import coordination, queries, services
from webapp.serving.models import Endpoint, Prediction, Replica
from webapp.serving.values import ReplicaAddress, Route, SampledAnswer, ShadowCount

Answer = Callable[[int], tuple[bytes, bytes]]  # number of the request → status, body


class Version:
    """A replica whose requests can be counted."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(size))
                status, body = self.answer(len(self.bodies))
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        except asyncio.IncompleteReadError:
            writer.close()


def scores(*values: float) -> bytes:
    return json.dumps({"outputs": [list(values)]}).encode()


class Trial:
    """A router with the version in use and its shadow behind it."""

    def __init__(self) -> None:
        self.stable = Version(lambda number: (b"200 OK", scores(0.9, 0.1)))
        self.shadow = Version(lambda number: (b"200 OK", scores(0.8, 0.2)))
        self.state = State()

        async def nobody_wakes(endpoint_id: str) -> None:
            raise AssertionError(endpoint_id)

        self.forwarding = Forwarding(self.state, nobody_wakes)
        self.servers: list[asyncio.Server] = []

    async def begin(self) -> None:
        addresses = []
        for number, version in enumerate((self.stable, self.shadow), 1):
            server = await asyncio.start_server(version.serve, "127.0.0.1", 0)
            self.servers.append(server)
            port = server.sockets[0].getsockname()[1]
            key = f"r-{number}"
            addresses.append(
                ReplicaAddress(
                    key, number, f"mv-{number}", number == 2, f"job-{number}", 1, "127.0.0.1", port
                )
            )
        self.route = Route(
            "ep-1", "vision", "mlp", "mv-1", 0, True, 0, False, tuple(addresses), 100, (), 60, shadow=10_000
        )
        await self.use(self.route)

    async def use(self, route: Route) -> None:
        await self.state.replace([route])
        for upstream in self.state.upstreams.values():
            upstream.ready = True

    async def ask(self, path: str = "/predict", **changes: Any) -> bytes:
        """What the caller gets; returns once the copy was answered, too."""

        async def stays() -> Any:
            await asyncio.Event().wait()

        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        incoming = Incoming("POST", path, {b"x-request-id": "q-1"}, b'{"inputs": [[1, 2]]}')
        await self.forwarding.forward(replace(self.route, **changes), incoming, stays, send)
        await self.forwarding.settled()
        return b"".join(one.get("body", b"") for one in messages)

    def counted(self) -> list[ShadowCount]:
        return self.state.shadowed(now_ms())

    async def end(self) -> None:
        self.forwarding.close()
        for server in self.servers:
            server.close()


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    made = Trial()
    await made.begin()
    yield made
    await made.end()


async def test_the_shadow_gets_a_copy_and_the_caller_the_answer_of_the_version_in_use(trial: Trial) -> None:
    assert await trial.ask() == scores(0.9, 0.1)
    assert await trial.ask() == scores(0.9, 0.1), "nothing comes from the cache while a version is tried"
    assert trial.shadow.bodies == trial.stable.bodies
    [count] = trial.counted()
    assert (count.version_id, count.requests, count.errors) == ("mv-2", 2, 0)
    assert (count.compared, count.alike, round(count.difference, 6)) == (2, 2, 0.2)
    told = trial.state.sampled()
    assert [(one.version_id, one.request_id) for one in told[:2]] == [("mv-1", "q-1"), ("mv-2", "q-1")]
    [callers] = trial.state.counted(now_ms())
    assert (callers.version_id, callers.requests) == ("mv-1", 2), "copies are nobody's requests"


async def test_a_shadow_that_fails_or_is_not_there_costs_no_caller_an_answer(trial: Trial) -> None:
    trial.shadow.answer = lambda number: (b"500 Wrong", b"")
    assert await trial.ask() == scores(0.9, 0.1)
    trial.servers[1].close()
    trial.forwarding.close()  # of the connections that are kept
    assert await trial.ask() == scores(0.9, 0.1)
    [count] = trial.counted()
    assert (count.requests, count.errors, count.compared) == (2, 2, 0)
    assert await trial.ask() == scores(0.9, 0.1)
    assert trial.counted()[0].requests == 2, "it is asked again once it is found ready"


async def test_no_copy_is_made_of_other_calls_of_failures_and_after_the_trial(trial: Trial) -> None:
    await trial.ask("/v2/models/mlp")
    trial.stable.answer = lambda number: (b"400 Bad", b"{}")
    await trial.ask()
    trial.stable.answer = lambda number: (b"200 OK", scores(0.9, 0.1))
    await trial.use(replace(trial.route, shadow=0))
    await trial.ask()
    assert trial.shadow.bodies == []


@pytest.fixture
def shadowed(cast: Cast, writer: Endpoint) -> Endpoint:
    policy = CanaryPolicy(share=5_000, shadow=True, watch_ms=0, min_requests=10, min_agreement=0.9)
    row = services.change_version(actor_of(cast.owner), "vision", writer.name, 2, policy)
    coordination.advance(row.id)
    Replica.objects.filter(endpoint=row).update(state="ready", healthy_ms=now_ms(), healthy_attempt=1)
    Endpoint.objects.filter(id=row.id).update(canary_ready_ms=now_ms())
    row.refresh_from_db()
    return row


def compared(row: Endpoint, alike: int, of: int = 100) -> None:
    latencies = (of, *[0] * (BUCKETS - 1))
    services.count_shadows("router-1", [
        ShadowCount(row.id, str(row.canary_id), now_ms(), of, 0, latencies, of, alike, of * 0.25)
    ])  # fmt: skip


def test_routers_send_copies_and_no_request(shadowed: Endpoint) -> None:
    [route] = [one for one in queries.routes() if one.endpoint_id == shadowed.id]
    assert (route.share, route.shadow) == (0, 5_000)


@pytest.mark.parametrize(("alike", "serves"), [(95, "mv-2"), (60, "mv-1")])
def test_it_takes_over_where_enough_of_its_answers_are_alike(
    shadowed: Endpoint, alike: int, serves: str
) -> None:
    compared(shadowed, alike)
    coordination.advance(shadowed.id)
    shadowed.refresh_from_db()
    assert (shadowed.stable_id, shadowed.canary_id) == (serves, None), shadowed.verdict
    assert f"{alike} of " in shadowed.verdict


def test_page_and_rest_compare_it_with_the_version_in_use(
    cast: Cast, shadowed: Endpoint, browser: Callable[[User], Client], api: Callable[[User], APIClient]
) -> None:
    compared(shadowed, 75)
    answers = {"mv-1": "cat", "mv-2": "dog"}
    services.keep_answers([
        SampledAnswer(
            shadowed.id, version, now_ms(), b'{"inputs": [1]}', json.dumps({"outputs": [text]}).encode(), (), "q-1"
        )
        for version, text in answers.items()
    ])  # fmt: skip
    services.label(actor_of(cast.member), "vision", shadowed.name, {"q-1": "dog"})
    assert dict(Prediction.objects.values_list("model_version", "correct")) == {"mv-1": False, "mv-2": True}
    address = f"/api/v1/endpoints/vision/{shadowed.name}/canary"
    found = api(cast.viewer).get(address).json()
    assert (found["shadow"], found["share_percent"], found["compared"], found["alike"]) == (True, 50, 100, 75)
    assert (found["mean_difference"], found["canary"]["requests"]) == (0.25, 100)
    assert (found["stable"]["accuracy"], found["canary"]["accuracy"]) == (0.0, 1.0)
    assert [(one["request"], one["stable"]) for one in found["answered_otherwise"]] == [
        ("q-1", {"output": "cat"})
    ]
    page = " ".join(browser(cast.viewer).get(f"/serving/vision/{shadowed.name}/").content.decode().split())
    for words in (
        "Shadow: version 2",
        "copies of 50 % of the requests",
        "75 of 100 compared answers",
        ">dog<",
    ):
        assert words in page
    services.roll_back(actor_of(cast.owner), "vision", shadowed.name)
    assert api(cast.viewer).get(address).status_code == 404


def test_a_shadow_is_refused_where_a_second_answer_does_harm(cast: Cast, writer: Endpoint) -> None:
    Endpoint.objects.filter(id=writer.id).update(spec=writer.spec | {"retry": False})
    with pytest.raises(TrainmasterError, match="answers requests a second time"):
        services.change_version(actor_of(cast.owner), "vision", writer.name, 2, CanaryPolicy(shadow=True))


def test_the_form_and_rest_begin_a_shadow(
    cast: Cast,
    writer: Endpoint,
    browser: Callable[[User], Client],
    api: Callable[[User], APIClient],
) -> None:
    address = f"/api/v1/endpoints/vision/{writer.name}/version"
    refused = api(cast.owner).put(address, {"version": 2, "min_agreement": 0.9}, format="json")
    assert (refused.status_code, "is for a shadow" in refused.content.decode()) == (400, True)
    form = {
        "version": "2", "share_percent": "100", "watch_minutes": "5", "min_requests": "10", "min_agreement": "95",
        "shadow": "on",
    }  # fmt: skip
    assert browser(cast.owner).post("/serving/vision/writer/version/", form).status_code == 302
    writer.refresh_from_db()
    policy = queries.canary_policy(writer)
    assert (policy.shadow, policy.min_agreement, policy.automatic) == (True, 0.95, False)
